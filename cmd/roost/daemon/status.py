"""What `roost status` finds out, and the words it says it in.

Asks two places: the run file, which tells whether a daemon lives, and the daemon itself, which
tells its threads. Works with either of them broken, and says so. Standard library only: this runs
in scripts and prompts, and should be done before anybody notices.
"""

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, cast

from roost.daemon.local_status import threads_at
from roost.daemon.lock import Holder
from roost.daemon.processes import ProcessInfo
from roost.daemon.run_file import DaemonRecord, NotRunning, RunFile

_WIDEST_CELL = 60
_ANSWER_TIMEOUT = 10.0
_LONGEST_ANSWER = 16 * 2**20

ThreadInfo = Mapping[str, Any]
ChannelInfo = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Status:
    """What is known. Without `record` no daemon runs; without `threads` it did not answer."""

    record: DaemonRecord | None
    threads: tuple[ThreadInfo, ...] | None
    note: str | None
    channels: tuple[ChannelInfo, ...] = ()
    processes: tuple[ProcessInfo, ...] = ()
    holder: Holder | None = None
    """Who has the daemon's lock, where the run file tells of no daemon."""

    @property
    def is_reachable(self) -> bool:
        return self.threads is not None

    def as_json(self) -> str:
        return json.dumps(
            {
                "running": self.record is not None or self.holder is not None,
                "reachable": self.is_reachable,
                "daemon": asdict(self.record) if self.record else None,
                "threads": self.threads,
                "channels": self.channels,
                "processes": [asdict(process) for process in self.processes],
                "note": self.note,
            },
            indent=2,
            ensure_ascii=False,
        )

    def lines(self, now: datetime) -> Iterator[str]:
        """For people."""
        if self.record is None and self.holder is not None:
            yield (
                f"A daemon (pid {self.holder.pid}) starts or stops just now, or has lost its run"
                " file: 'roost doctor' tells."
            )
        elif self.record is None:
            yield "No daemon is running. 'roost daemon' starts one."
        else:
            since = datetime.fromisoformat(self.record.started_at)
            yield (
                f"The daemon runs: pid {self.record.pid}, {_where(self.record)},"
                f" since {since.astimezone():%Y-%m-%d %H:%M:%S}"
                f" ({age_text((now - since).total_seconds())}), version {self.record.version}."
            )
        if self.note:
            yield self.note
        for channel in self.channels:
            yield _channel_line(channel, now)
        if self.threads is not None:
            yield from _thread_lines(self.threads)
        if self.processes:
            yield from _process_lines(self.processes)


def find_status(
    run_file: RunFile,
    token: str | None,
    trouble: str | None = None,
    holder: Holder | None = None,
) -> Status:
    """Look and ask. `trouble` says why there is no token, if there is none.

    `holder` has the daemon's lock, which says that there is one also where the run file does not.
    """
    found = run_file.look()
    if isinstance(found, NotRunning):
        return Status(None, None, found.note, holder=holder)
    record = found.record
    if record.port is None:
        return _asked_locally(record)
    if token is None:
        return Status(record, None, f"It was not asked for its threads: {trouble or 'no token'}.")
    try:
        threads = _ask(record.host, record.port, token)
    except (OSError, http.client.HTTPException, ValueError) as exc:
        return Status(record, None, f"It does not answer on its port ({exc or 'no answer'}).")
    return Status(record, threads, None)


def _asked_locally(record: DaemonRecord) -> Status:
    try:
        threads = threads_at(record.socket or "", _ANSWER_TIMEOUT)
    except (OSError, ValueError) as exc:
        return Status(record, None, f"It does not answer on its socket ({exc or 'no answer'}).")
    return Status(record, threads, None)


def _where(record: DaemonRecord) -> str:
    return f"{record.host}:{record.port}" if record.port is not None else "without a port"


def _ask(host: str, port: int, token: str) -> tuple[ThreadInfo, ...]:
    """The threads, from the daemon. Raises OSError, HTTPException, ValueError."""
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_TIMEOUT)
    try:
        connection.request("GET", "/status", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        if answer.status == http.HTTPStatus.UNAUTHORIZED:
            raise ValueError("it refused our token; was it started with another one?")
        if answer.status != http.HTTPStatus.OK:
            raise ValueError(f"it answered {answer.status}")
        told: object = json.loads(answer.read(_LONGEST_ANSWER))
    finally:
        connection.close()
    threads = cast("dict[str, Any]", told).get("threads") if isinstance(told, dict) else None
    if not isinstance(threads, list):
        raise ValueError("its answer makes no sense")
    return tuple(cast("list[ThreadInfo]", threads))


def _channel_line(channel: ChannelInfo, now: datetime) -> str:
    """Such as "telegram: unreachable for 5m 2s (no answer); 2 chats, 3 messages wait"."""
    with suppress(ValueError):
        since = datetime.fromisoformat(str(channel.get("since")))
        age = f" for {age_text((now - since).total_seconds())}"
        detail = f" ({_cell(channel['detail'])})" if channel.get("detail") else ""
        return (
            f"{_cell(channel.get('channel'))}: {_cell(channel.get('status'))}{age}{detail};"
            f" {channel.get('chats')} chats, {channel.get('waiting')} messages wait to be sent."
        )
    return f"{_cell(channel.get('channel'))}: unknown."


def _process_lines(processes: tuple[ProcessInfo, ...]) -> Iterator[str]:
    yield ""
    rows = [("PROCESS", "AGE", "MEMORY", "PID", "CONVERSATION")]
    rows += [
        (
            process.role,
            age_text(process.age_seconds),
            "-" if process.memory_bytes is None else f"{process.memory_bytes / 2**20:.0f} MB",
            str(process.pid),
            _cell(process.conversation_id or "-"),
        )
        for process in processes
    ]
    yield from _table(rows)


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _thread_lines(threads: tuple[ThreadInfo, ...]) -> Iterator[str]:
    if not threads:
        yield "It has no threads."
        return
    yield ""
    rows = [("STATUS", "FOR", "FOLLOWERS", "PID", "CONVERSATION", "PROJECT")]
    rows += [
        (
            str(thread.get("status")),
            age_text(float(thread.get("for_seconds") or 0)),
            str(thread.get("followers")),
            str(thread.get("worker_pid") or "-"),
            _cell(thread.get("conversation_id")),
            _cell(thread.get("project_dir")),
        )
        for thread in threads
    ]
    yield from _table(rows)


def _cell(value: object) -> str:
    """On one line, and not so wide that the other rows suffer."""
    text = str(value)
    if not text.isprintable():
        text = text.encode("unicode_escape").decode("ascii")
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 3] + "..."


def age_text(seconds: float) -> str:
    """A length of time in one or two units: "2h 5m"."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    units = [(days, "d"), (hours, "h"), (minutes, "m"), (left, "s")]
    first = next((index for index, (count, _) in enumerate(units) if count), len(units) - 1)
    shown = [f"{count}{unit}" for count, unit in units[first : first + 2] if count]
    return " ".join(shown) or "0s"


def utc_now() -> datetime:
    return datetime.now(UTC)
