"""A launch pad whose forks run the scripted worker: `<python> scripted_pad.py [<word> …] <fd>`."""

import runpy
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "cmd")]

from sessions.infrastructure.pad_process import serve_pad  # noqa: E402
from sessions.infrastructure.worker_process import Program  # noqa: E402


def scripted(words: Sequence[str]) -> Program:
    """The scripted worker, as a program for forks."""
    script = str(Path(__file__).with_name("scripted.py"))

    def run(arguments: Sequence[str]) -> None:
        sys.argv = [script, *(words or ["echo"]), *arguments]
        runpy.run_path(script, run_name="__main__")

    return run


if __name__ == "__main__":
    serve_pad(socket.socket(fileno=int(sys.argv[-1])), lambda: scripted(sys.argv[1:-1]), [])
