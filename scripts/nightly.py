#!/usr/bin/env python3
"""The parts of `make nightly`, and when each of them passed last.

  scripts/nightly.py PART…            runs `make nightly-PART` for each part, and notes those that pass
  scripts/nightly.py --report PART…   prints the notes, and which parts have none

A note is a line of tests/nightly.txt: the part, the date, the commit, and how long it took. A part that fails keeps
its note, and the other parts run all the same. Commit the file with the change that the parts have tested.
"""

import datetime
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTES = ROOT / "tests/nightly.txt"


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def notes():
    lines = NOTES.read_text(encoding="utf-8").splitlines() if NOTES.exists() else []
    return {line.split()[0]: line for line in lines if line and not line.startswith("#")}


def note(part, seconds):
    # The notes themselves do not count as a change.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{NOTES.relative_to(ROOT)}")
    commit = git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")
    today = datetime.datetime.now(datetime.timezone.utc).date()
    noted = notes() | {part: f"{part} {today} {commit} {seconds} s"}
    head = "# When each part of `make nightly` passed last: scripts/nightly.py writes this."
    NOTES.write_text("\n".join([head, *sorted(noted.values())]) + "\n", encoding="utf-8")


def run(parts):
    failed = []
    for part in parts:
        print(f"nightly: {part}", flush=True)
        began = time.monotonic()
        if subprocess.run(["make", "--no-print-directory", f"nightly-{part}"], cwd=ROOT).returncode:
            failed.append(part)
        else:
            note(part, round(time.monotonic() - began))
    if failed:
        sys.exit(f"nightly: failed: {' '.join(failed)}")


def report(parts):
    noted = notes()
    for part in parts:
        if part not in noted:
            print(f"{part:12} has never passed")
            continue
        _, date, commit, *took = noted[part].split()
        count = subprocess.run(["git", "rev-list", "--count", f"{commit.removesuffix('+changes')}..HEAD"],
                               cwd=ROOT, capture_output=True, text=True)
        since = f"{count.stdout.strip()} commits ago" if count.returncode == 0 else "on a commit that is not here"
        print(f"{part:12} passed on {date} at {commit}, {since}, in {' '.join(took)}")


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments == ["--report"]:
        sys.exit(__doc__)
    if arguments[0] == "--report":
        report(arguments[1:])
    else:
        run(arguments)


main()
