"""A fresh keeper whose fork runs the scripted worker: `<python> scripted_keeper.py [<word> …]`."""

import os
import socket
import sys
from pathlib import Path

if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    ROOT = Path(__file__).parents[3]
    sys.path[:0] = [str(ROOT), str(ROOT / "cmd")]
    from sessions.infrastructure.keeper_start import keep
    from sessions.infrastructure.marks import Room
    from tests.support.workers.scripted_pad import scripted

    room = Room.find()
    os.dup2(0, 3)
    keep(socket.socket(fileno=3), scripted(sys.argv[1:]), room.write if room else None)
