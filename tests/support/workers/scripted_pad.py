"""A launch pad whose forks run the scripted worker: `<python> scripted_pad.py <fd>`."""

import runpy
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "cmd")]

from sessions.infrastructure.pad_process import serve_pad  # noqa: E402
from sessions.infrastructure.worker_process import Program  # noqa: E402


def warm_up() -> Program:
    script = str(Path(__file__).with_name("scripted.py"))

    def run(arguments: Sequence[str]) -> None:
        # The launcher's command is `<python> scripted.py <word>`; only the word is not shared.
        sys.argv = [script, "echo", *arguments]
        runpy.run_path(script, run_name="__main__")

    return run


if __name__ == "__main__":
    serve_pad(socket.socket(fileno=int(sys.argv[-1])), warm_up, [])
