"""A child's stdin, stdout and stderr as bare descriptors: both ends of three pipes."""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass


@dataclass(slots=True)
class Pipes:
    """Our ends and the child's ends; each is closed once."""

    stdin: int
    stdout: int
    stderr: int
    child_stdin: int
    child_stdout: int
    child_stderr: int

    @classmethod
    def make(cls, stdout_bytes: int | None = None) -> "Pipes":
        """Raises OSError, and leaves none open then.

        The stdout has room for so many bytes, where the system grants it.
        """
        made: list[int] = []
        try:
            for _ in range(3):
                made += os.pipe()
        except OSError:
            for fd in made:
                os.close(fd)
            raise
        child_stdin, stdin, stdout, child_stdout, stderr, child_stderr = made
        for fd in (stdin, stdout, stderr):
            os.set_blocking(fd, False)
        if stdout_bytes is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):
                fcntl.fcntl(child_stdout, fcntl.F_SETPIPE_SZ, stdout_bytes)
        return cls(stdin, stdout, stderr, child_stdin, child_stdout, child_stderr)

    def close_childs(self) -> None:
        for name in ("child_stdin", "child_stdout", "child_stderr"):
            self._close(name)

    def close_stdin(self) -> None:
        self._close("stdin")

    def close(self) -> None:
        for name in self.__slots__:
            self._close(name)

    def _close(self, name: str) -> None:
        fd: int = getattr(self, name)
        if fd >= 0:
            setattr(self, name, -1)
            os.close(fd)
