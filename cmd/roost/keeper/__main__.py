"""A fresh keeper. Its connection to the daemon is its stdin.

The first process ends at once: a keeper is nobody's child, since it may outlive its daemon. Our own
worker is forked from here, so that one launch costs one start of an interpreter.
"""

import os
import socket
from collections.abc import Sequence


def run_worker(arguments: Sequence[str]) -> None:
    """What the fork runs; a keeper itself has no use for it."""
    from roost.cli import main

    main(args=list(arguments), prog_name="roost")


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    from sessions.infrastructure.keeper_start import keep
    from sessions.infrastructure.marks import Room

    room = Room.find()
    os.dup2(0, 3)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    keep(socket.socket(fileno=3), run_worker, room.write if room else None)
