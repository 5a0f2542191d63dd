#!/usr/bin/env python3
"""Compares the mutants that survived a run with those that are accepted.

  compare.py SURVIVORS OUT    SURVIVORS: the list of accepted ones; OUT: a folder with the results of the run
"""

import collections
import pathlib
import sys

OUTCOMES = ("caught", "timeout", "unviable", "missed")


def accepted(path):
    """How often each mutant is accepted. Every block of them has to begin with its reason."""
    mutants, reason, after_mutant = collections.Counter(), False, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("#"):
            if after_mutant:
                sys.exit(f"{path}:{number}: a block begins with its reason; separate blocks by an empty line")
            reason = True
        elif not line:
            reason = after_mutant = False
        elif not reason:
            sys.exit(f"{path}:{number}: `{line}` has no reason")
        else:
            mutants[line] += 1
            after_mutant = True
    return mutants


def without_position(name):
    """The mutant without line and column, which move whenever the file changes."""
    path, rest = name.split(":", 1)
    fields = rest.split(":", 2)
    if len(fields) == 3 and fields[0].isdigit() and fields[1].isdigit():
        rest = fields[2]
    return f"{path}:{rest}"


def main(survivors, out):
    found = {outcome: [] for outcome in OUTCOMES}
    for outcome in OUTCOMES:
        for path in pathlib.Path(out).rglob(f"{outcome}.txt"):
            found[outcome] += [without_position(line) for line in path.read_text().splitlines() if line]
    tested = collections.Counter(name for names in found.values() for name in names)
    listed, missed = accepted(pathlib.Path(survivors)), collections.Counter(found["missed"])
    figures = ", ".join(f"{len(names)} {outcome}" for outcome, names in found.items())
    print(f"mutants: {sum(tested.values())} tested: {figures}; {(missed & listed).total()} of the missed are accepted")
    for name, count in (listed - missed).items():
        if tested[name]:
            print(f"accepted, but found by a test now; take it off the list ({count}): {name}")
    new = missed - listed
    for name, count in new.items():
        print(f"survived ({count}): {name}")
    sys.exit(1 if new else 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
