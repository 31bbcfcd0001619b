"""A worker's stderr in the daemon's log: JSON lines one by one, anything else in one warning."""

import logging
import os
from collections import deque
from typing import Any

import msgspec
import structlog

from sessions.domain.splitter import LineSplitter, LineTooLong

log = structlog.stdlib.get_logger()

_MAX_LINE = 256 * 1024
_READ_BYTES = 64 * 1024
# Of a worker that prints tracebacks, the end is what says something.
_KEPT_PLAIN_LINES = 40
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.ERROR,
    "fatal": logging.ERROR,
}


class StderrLog:
    """Collects one worker's stderr. The caller binds the thread's names in the log's context."""

    def __init__(self, worker_pid: int) -> None:
        self._worker_pid = worker_pid
        self._splitter = LineSplitter(_MAX_LINE)
        self._plain: deque[str] = deque(maxlen=_KEPT_PLAIN_LINES)
        self._plain_dropped = 0

    def read_from(self, fd: int) -> bool:
        """Read what is there, without waiting. False at the end of the file."""
        while True:
            try:
                chunk = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not chunk:
                return False
            self.take_in(chunk)

    def take_in(self, chunk: bytes) -> None:
        """What was read of it."""
        try:
            lines = self._splitter.feed(chunk)
        except LineTooLong:
            self._splitter = LineSplitter(_MAX_LINE)
            lines = [b"(a line of more than 256 KiB was dropped)"]
        for line in lines:
            self._take(line)

    def close(self) -> None:
        """Log what was no JSON, once."""
        if self._plain:
            log.warning(
                "worker_stderr",
                worker_pid=self._worker_pid,
                text="\n".join(self._plain),
                dropped_lines=self._plain_dropped,
            )
            self._plain.clear()

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            record: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            self._plain_dropped += len(self._plain) == _KEPT_PLAIN_LINES
            self._plain.append(line.decode(errors="replace"))
            return
        # A worker's "critical" is the end of a worker, not of the daemon.
        level = _LEVELS.get(str(record.pop("level", "info")).lower(), logging.INFO)
        event = str(record.pop("event", record.pop("message", "worker_said")))
        record.pop("timestamp", None)
        fields = {f"worker_{k}" if k in _RESERVED else k: v for k, v in record.items()}
        log.log(level, event, **{**fields, "worker_pid": self._worker_pid})


# Names that the log itself fills.
_RESERVED = frozenset({"project_dir", "conversation_id", "generation", "exc_info", "stack_info"})
