#!/usr/bin/env python3
"""Counts the lines of Rust by crate, and of Python in benches and scripts: product, tests and support.

  scripts/count_lines.py            prints the table
  scripts/count_lines.py --check    fails if it differs from scripts/lines.txt
  scripts/count_lines.py --update   writes scripts/lines.txt

All lines count, with blank lines and comments. Product is what a published crate or a deployed function is built from.
Tests are test modules and everything below a folder `tests`. Support is what only tests and benchmarks use, and the
scripts.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "scripts/lines.txt"
COUNTED = ["*.rs", "crates/bench/*.py", "crates/chaos/*.py", "scripts/*.py"]
SUPPORT = {"bench", "chaos", "conformance", "fixtures", "fuzz", "harness", "published", "sim", "testkit"}
TEST_MODULE = re.compile(r"^( *)#\[cfg\((?:all\()?test\b.*\)\]$")


def tracked():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *COUNTED], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return sorted(path for path in listed.stdout.split() if (ROOT / path).is_file())


def lines_in_test_modules(lines):
    """The number of lines from each `#[cfg(test)]` before an inline module to the end of that module."""
    count, at = 0, 0
    while at < len(lines):
        found = TEST_MODULE.match(lines[at])
        opening = next((i for i in range(at + 1, min(at + 6, len(lines))) if not lines[i].lstrip().startswith("#")), None)
        if found and opening is not None and re.match(r" *(pub(\(.*\))? )?mod \w+ \{$", lines[opening]):
            end = next(i for i in range(opening, len(lines)) if lines[i] == found[1] + "}")
            count += end + 1 - at
            at = end
        at += 1
    return count


def count(path):
    """The crate and the numbers of lines of one file: product, tests, support."""
    parts = pathlib.PurePath(path).parts
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    if parts[0] == "scripts":
        return parts[0], (0, 0, len(lines))
    if parts[0] != "crates":
        return parts[0], (0, len(lines), 0)
    crate = parts[1]
    inside = parts[2:]
    if crate in SUPPORT:
        # The contract suites and the checkers are support; what runs them is a test.
        return crate, (0, len(lines), 0) if inside[0] == "tests" else (0, 0, len(lines))
    if inside[0] != "src" or "tests" in inside[1:-1] or inside[-1] == "tests.rs":
        return crate, (0, len(lines), 0)
    tests = lines_in_test_modules(lines)
    return crate, (len(lines) - tests, tests, 0)


def table():
    crates = {}
    for path in tracked():
        crate, counted = count(path)
        crates[crate] = tuple(map(sum, zip(crates.get(crate, (0, 0, 0)), counted)))
    crates["all"] = tuple(map(sum, zip(*crates.values())))
    rows = [f"{'crate':<14}{'product':>9}{'tests':>9}{'support':>9}"]
    rows += [f"{crate:<14}{p:>9}{t:>9}{s:>9}" for crate, (p, t, s) in crates.items()]
    return "\n".join(rows) + "\n"


def main():
    counted = table()
    match sys.argv[1:]:
        case []:
            print(counted, end="")
        case ["--update"]:
            TABLE.write_text(counted, encoding="utf-8")
        case ["--check"]:
            if TABLE.read_text(encoding="utf-8") != counted:
                print(counted, end="")
                sys.exit("count-lines: the numbers of lines have changed: look at them, "
                         "then run `scripts/count_lines.py --update`")
        case _:
            sys.exit("count-lines: usage: scripts/count_lines.py [--check | --update]")


main()
