#!/usr/bin/env python3
"""Packs the built functions: next to each FOLDER/NAME/bootstrap its bootstrap.zip, and in FOLDER/architecture what the
programs were built for, in the words of template.yaml.

  pack_lambda.py FOLDER NAME… [--bundle BUNDLE] [--layer NAME] [--level 0…9]

BUNDLE is a folder of files that the function `worker` finds beside its program: the configuration and the lock file of the
gateway, and the servers that it starts. Every other function gets the first two only.

--layer also writes FOLDER/layer.zip, a layer from which the program of function NAME is /opt/longhaul/NAME.

--level is that of the compression, 9 without it. Tests, whose programs are large, take a low one.

The programs stay beside their zips: `cargo lambda deploy` takes a program, the SAM CLI a zip.
"""

import argparse
import io
import os
import stat
import sys
import zipfile
from pathlib import Path

# The field e_machine of an ELF header.
ARCHITECTURES = {0x3E: "x86_64", 0xB7: "arm64"}


# What every function of the gateway reads.
CONFIGURATION = ("mcp.json", "mcp.lock.json")

# What Lambda unpacks at most, layers included.
UNPACKED_MIB_MAX = 250


def add(archive, name, data, mode, level):
    """A file with always the same time, so that the same files give the same zip."""
    entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
    entry.create_system = 3  # Unix, whose permissions the next line has
    entry.external_attr = mode << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    # The level of the archive is not that of an entry that is made here.
    archive.writestr(entry, data, compresslevel=level)


def zipped(program, level, name="bootstrap", files=()):
    """An executable in a zip, as Lambda expects it, and files by their names with contents and modes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        add(archive, name, program, stat.S_IFREG | 0o755, level)
        for path, (data, mode) in sorted(dict(files).items()):
            add(archive, path, data, mode, level)
    return packed.getvalue()


def bundled(bundle, names=None):
    """The files of a folder, or those of its root with these names. Links stay links, as npm makes them."""
    found = {}
    for folder, folders, files in os.walk(bundle):
        for name in files + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            path = Path(folder, name)
            inside = path.relative_to(bundle).as_posix()
            if inside == "bootstrap":
                raise ValueError("the bundle has a file `bootstrap`, which is the name of the program")
            if names is not None and inside not in names:
                continue
            if path.is_symlink():
                found[inside] = (os.readlink(path), stat.S_IFLNK | 0o777)
            else:
                executable = path.stat().st_mode & stat.S_IXUSR
                found[inside] = (path.read_bytes(), stat.S_IFREG | (0o755 if executable else 0o644))
    size = sum(len(data) for data, _ in found.values()) >> 20
    if size > UNPACKED_MIB_MAX:
        raise ValueError(f"it has {size} MiB, and Lambda takes {UNPACKED_MIB_MAX}: use a container image")
    return found


def architecture(program):
    """What a Linux program was built for."""
    if program[:4] != b"\x7fELF" or len(program) < 20:
        raise ValueError("not a Linux program")
    machine = int.from_bytes(program[18:20], "little")
    if machine not in ARCHITECTURES:
        raise ValueError(f"built for a processor that Lambda does not have (ELF machine {machine:#x})")
    return ARCHITECTURES[machine]


def main(folder, names, bundle, layer, level):
    found = {}
    for name in names:
        path = folder / name / "bootstrap"
        try:
            program = path.read_bytes()
            found[name] = architecture(program)
        except (OSError, ValueError) as error:
            sys.exit(f"pack-lambda: {path}: {error}")
        try:
            files = bundled(bundle, None if name == "worker" else CONFIGURATION) if bundle else {}
        except (OSError, ValueError) as error:
            sys.exit(f"pack-lambda: {bundle}: {error}")
        if missing := [name for name in CONFIGURATION if bundle and name not in files]:
            sys.exit(f"pack-lambda: {bundle}: {missing[0]} is missing; `longhaul gateway lock` writes the lock file")
        (folder / name / "bootstrap.zip").write_bytes(zipped(program, level, files=files))
        if name == layer:
            (folder / "layer.zip").write_bytes(zipped(program, level, name=f"longhaul/{name}"))
    if len(set(found.values())) != 1:
        sys.exit(f"pack-lambda: the functions were built for different processors: {found}")
    (folder / "architecture").write_text(found[names[0]] + "\n")


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--layer")
    parser.add_argument("--level", type=int, choices=range(10), default=9)
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    if given.bundle and not given.bundle.is_dir():
        sys.exit(f"pack-lambda: {given.bundle} is not a folder")
    main(given.folder, given.names, given.bundle, given.layer, given.level)
