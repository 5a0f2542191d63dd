#!/usr/bin/env python3
"""Fails if a function's program is larger than it may be: check_sizes.py PROGRAM…

The larger a program, the later a new sandbox answers: it loads the program first.
"""

import sys
from pathlib import Path

# For x86_64; docs/benchmarks.md has the sizes of today.
BYTES_MAX = 16_777_216


def main(programs):
    sizes = {program: Path(program).stat().st_size for program in programs}
    for program, size in sizes.items():
        print(f"check-sizes: {program} has {size:,} of {BYTES_MAX:,} bytes")
    too_large = [program for program, size in sizes.items() if size > BYTES_MAX]
    if too_large:
        sys.exit(f"check-sizes: too large: {', '.join(too_large)}")


main(sys.argv[1:])
