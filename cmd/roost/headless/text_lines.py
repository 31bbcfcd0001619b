"""Event lines in; the text of the answer out, as it comes, and errors to stderr.

For programs that show a run in a terminal or a pipe and have nobody to ask.
"""

import sys
from collections.abc import Callable

import msgspec

from roost.headless.stderr import tell


class _Peek(msgspec.Struct, rename="camel"):
    type: str
    delta: object = None
    message: str | None = None


class TextLines:
    """Event lines in; the answer's text out, and errors to stderr."""

    def __init__(self, tell: Callable[[str], None] = tell) -> None:
        self._tell = tell
        self._is_mid_line = False

    def write(self, line: bytes) -> None:
        event = msgspec.json.decode(line, type=_Peek)
        if event.type == "TEXT_MESSAGE_CONTENT" and isinstance(event.delta, str):
            self._print(event.delta)
            self._is_mid_line = not event.delta.endswith("\n")
        elif event.type == "TEXT_MESSAGE_END" and self._is_mid_line:
            self._print("\n")
            self._is_mid_line = False
        elif event.type == "RUN_ERROR":
            self._tell(event.message or "the run failed")

    async def wait_writable(self) -> None:
        """A terminal or file takes what it is given."""

    async def wait_answerable(self) -> None:
        """Nobody asks."""

    def _print(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            # Nobody reads any more; the task goes on, and its answer is in the conversation.
            pass
