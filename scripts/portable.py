#!/usr/bin/env python3
"""What scripts need and macOS lacks: the programs `flock`, `setsid` and `sha256sum`, and `stat` with GNU's formats.

  portable.py lock FD         waits for an exclusive lock on the open file FD, which the caller holds until it closes it
  portable.py try-lock FD     the same without waiting; fails if another process holds the lock
  portable.py unlock FD       releases the lock
  portable.py setsid COMMAND  runs COMMAND as the leader of a new session and process group, in this process
  portable.py sha256          prints the checksum of the standard input
  portable.py stamp FILE…     prints size and time of each file, to tell whether one was replaced
"""

import fcntl
import hashlib
import os
import sys


def lock(descriptor, operation):
    # The lock belongs to the open file that caller and child share, and so outlives this process.
    try:
        fcntl.flock(int(descriptor), operation)
    except BlockingIOError:
        sys.exit(1)


def stamp(files):
    for file in files:
        status = os.stat(file)
        print(status.st_size, status.st_mtime_ns)


def main(verb="", *arguments):
    if verb == "lock":
        lock(*arguments, fcntl.LOCK_EX)
    elif verb == "try-lock":
        lock(*arguments, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif verb == "unlock":
        lock(*arguments, fcntl.LOCK_UN)
    elif verb == "setsid":
        os.setsid()
        os.execvp(arguments[0], arguments)
    elif verb == "sha256":
        print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())
    elif verb == "stamp":
        stamp(arguments)
    else:
        sys.exit(f"portable: unknown verb {verb!r}\n{__doc__}")


main(*sys.argv[1:])
