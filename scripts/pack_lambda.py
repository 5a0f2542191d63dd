#!/usr/bin/env python3
"""Packs the built functions: next to each FOLDER/NAME/bootstrap its bootstrap.zip, and in FOLDER/architecture what the
programs were built for, in the words of template.yaml.

  pack_lambda.py FOLDER NAME…

The programs stay beside their zips: `cargo lambda deploy` takes a program, the SAM CLI a zip.
"""

import io
import sys
import zipfile
from pathlib import Path

# The field e_machine of an ELF header.
ARCHITECTURES = {0x3E: "x86_64", 0xB7: "arm64"}


def zipped(program, level=9):
    """An executable named bootstrap in a zip, as Lambda expects it. The same program gives the same zip."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        entry = zipfile.ZipInfo("bootstrap", date_time=(2020, 1, 1, 0, 0, 0))
        entry.create_system = 3  # Unix, whose permissions the next line has
        entry.external_attr = 0o100755 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, program)
    return packed.getvalue()


def architecture(program):
    """What a Linux program was built for."""
    if program[:4] != b"\x7fELF" or len(program) < 20:
        raise ValueError("not a Linux program")
    machine = int.from_bytes(program[18:20], "little")
    if machine not in ARCHITECTURES:
        raise ValueError(f"built for a processor that Lambda does not have (ELF machine {machine:#x})")
    return ARCHITECTURES[machine]


def main(folder, *names):
    folder, found = Path(folder), {}
    for name in names:
        path = folder / name / "bootstrap"
        try:
            program = path.read_bytes()
            found[name] = architecture(program)
        except (OSError, ValueError) as error:
            sys.exit(f"pack-lambda: {path}: {error}")
        (folder / name / "bootstrap.zip").write_bytes(zipped(program))
    if len(set(found.values())) != 1:
        sys.exit(f"pack-lambda: the functions were built for different processors: {found}")
    (folder / "architecture").write_text(found[names[0]] + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
