"""Where log lines go and what they look like. The only module that configures logging.

A line has timestamp, level, event (a past-tense fact in snake_case) and fields. Payloads, tokens
and prompts are never logged. Import it after the arguments are parsed: structlog takes its time.
"""

import json
import logging
import sys
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import structlog

Level = Literal["debug", "info", "warning", "error"]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class TextOut(Protocol):
    """What a log is written to: an open file, stderr."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Sink:
    render: Callable[[MutableMapping[str, Any]], str]
    out: TextOut

    def take(self, fields: MutableMapping[str, Any]) -> None:
        try:
            self.out.write(self.render(fields) + "\n")
            self.out.flush()
        except (OSError, ValueError):
            # A full disk or a closed terminal must not stop what was only being reported.
            pass


class _Sinks:
    """What structlog calls at the end of its chain."""

    def __init__(self, sinks: tuple[_Sink, ...]) -> None:
        self._sinks = sinks

    def log(self, **fields: Any) -> None:
        for sink in self._sinks:
            sink.take(fields)

    debug = info = warning = error = critical = exception = log


def configure(level: Level, stderr_json: bool = False, file: TextOut | None = None) -> None:
    """Send log lines to the file as JSON, and to stderr: as JSON, or readable for a person.

    With a file, stderr gets readable lines only when it is a terminal. Library logs of level
    warning and above join in.
    """
    sinks = [_Sink(_as_json, file)] if file is not None else []
    if stderr_json:
        sinks.append(_Sink(_as_json, sys.stderr))
    elif file is None or sys.stderr.isatty():
        sinks.append(_Sink(_for_people, sys.stderr))
    target = _Sinks(tuple(sinks))
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _as_fields,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_: target,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_FromLibraries(logging.WARNING)]
    root.setLevel(logging.WARNING)


class _FromLibraries(logging.Handler):
    """Hands what libraries log with the standard module over to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(
            min(record.levelno, logging.ERROR),
            "library_reported",
            library=record.name,
            message=record.getMessage(),
            exc_info=record.exc_info,
        )


def _as_fields(
    _logger: object, _method: str, fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    first = {key: fields.pop(key) for key in ("timestamp", "level", "event") if key in fields}
    return {**first, **fields}


def _as_json(fields: MutableMapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, default=str)


def _for_people(fields: MutableMapping[str, Any]) -> str:
    """One line; of a traceback only its last line, the file has the rest."""
    rest = dict(fields)
    time = str(rest.pop("timestamp", ""))[11:19]
    level = rest.pop("level", "")
    event = str(rest.pop("event", "")).replace("_", " ")
    trace = str(rest.pop("exception", "")).strip().rsplit("\n", 1)[-1]
    if trace:
        rest["error"] = trace
    words = "  ".join(f"{key}={value}" for key, value in rest.items() if value is not None)
    return f"{time} {level:<7} {event}  {words}".rstrip()
