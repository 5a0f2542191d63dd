#!/usr/bin/env python3
"""Fails if a line of Rust or Markdown is longer than 120 columns, outside tables, raw strings, links and code blocks, or a
file of Rust than 400 lines."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS_MAX = 120
LINES_MAX = 400
# Files that are longer. This list only shrinks.
LONGER = {
    "crates/longhaul/tests/server/testing.rs",
    "crates/testkit/src/models/store.rs",
}
# Nothing in such a line can be broken: a table's row, a link, a picture, or one long word.
UNBREAKABLE = re.compile(r"^\s*(//[/!] )?(\||\[[^]]*\]: |[-*>] ?\S+$|\S+$)|\]\([^)]*\)")
RAW_STRING = re.compile(r"\br(#*)\".*?\"\1", re.DOTALL)


def without_raw_strings(rust):
    """The same lines, with nothing in raw strings, which cannot be broken either."""
    return RAW_STRING.sub(lambda raw: "\n" * raw[0].count("\n"), rust)


def without_code(markdown):
    return re.sub(r"^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), markdown, flags=re.DOTALL | re.MULTILINE)


def too_long(path):
    text = path.read_text(encoding="utf-8")
    is_markdown = path.suffix == ".md"
    lines = (without_code if is_markdown else without_raw_strings)(text).split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX and not UNBREAKABLE.search(line):
            yield number


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.md"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    paths = [ROOT / path for path in listed.stdout.split() if (ROOT / path).is_file()]
    found = [f"{path.relative_to(ROOT)}:{number}" for path in paths for number in too_long(path)]
    if found:
        sys.exit("\n".join(found) + f"\ncheck-columns: these {len(found)} lines are longer than {COLUMNS_MAX} columns")
    rust = [path for path in paths if path.suffix == ".rs"]
    longer = {str(path.relative_to(ROOT)) for path in rust if len(path.read_text(encoding="utf-8").splitlines()) > LINES_MAX}
    if longer - LONGER:
        sys.exit(f"check-columns: split these files, which have more than {LINES_MAX} lines: {sorted(longer - LONGER)}")
    if LONGER - longer:
        sys.exit(f"check-columns: remove these from LONGER: {sorted(LONGER - longer)}")


main()
