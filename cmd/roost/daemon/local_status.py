"""What `roost status` asks a daemon that has no port: its threads, over the local socket.

Standard library only, as all that `roost status` does: one line there, and the answer to it.
"""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any, cast

_READ = 65_536
_LONGEST_ANSWER = 16 * 2**20
_LIST = {
    "type": "command",
    "id": "1",
    "protocol": {"name": "roost.daemon", "version": 1},
    "clientId": "roost-status",
    "command": {"type": "list"},
}


def threads_at(path: str, timeout: float) -> tuple[dict[str, Any], ...]:
    """The daemon's threads. Raises OSError, and ValueError for an answer that makes no sense."""
    deadline = time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(path)
        connection.sendall(json.dumps(_LIST).encode() + b"\n")
        for record in _records(connection, deadline):
            if record.get("type") == "response":
                return tuple(_thread(row) for row in _rows(record))
    raise ValueError("it hung up")


def _records(connection: socket.socket, deadline: float) -> Iterator[dict[str, Any]]:
    data = b""
    while chunk := connection.recv(_READ):
        *lines, data = (data + chunk).split(b"\n")
        for line in lines:
            record: object = json.loads(line)
            if isinstance(record, dict):
                yield cast("dict[str, Any]", record)
        if len(data) > _LONGEST_ANSWER or time.monotonic() > deadline:
            raise ValueError("its answer does not end")


def _rows(response: dict[str, Any]) -> list[dict[str, Any]]:
    data: object = response.get("data")
    rows: object = cast("dict[str, Any]", data).get("sessions") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise ValueError(str(response.get("error", "its answer makes no sense")))
    return cast("list[dict[str, Any]]", rows)


def _thread(row: dict[str, Any]) -> dict[str, Any]:
    """As the daemon tells it on its port."""
    return {
        "project_dir": row.get("projectDir"),
        "conversation_id": row.get("sessionId"),
        "status": row.get("status"),
        "run_id": row.get("runId"),
        "interrupts": row.get("waitsFor", []),
        "followers": row.get("followers", 0),
        "worker_pid": row.get("workerPid"),
        "for_seconds": row.get("sinceSeconds", 0.0),
    }
