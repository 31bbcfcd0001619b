"""A front end as plain as can be: it posts inputs, and reads server-sent events."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio
import httpx2

from tests.agui.scenes import TOKEN

Event = dict[str, Any]
PATIENCE = 180.0


class Host(Protocol):
    """A daemon that serves, as far as a front end knows it."""

    @property
    def port(self) -> int: ...
    @property
    def project(self) -> Path: ...


@dataclass
class Body:
    """One stream, as it came."""

    status: int
    headers: httpx2.Headers
    _chunks: AsyncIterator[bytes]
    raw: bytes = b""
    events: list[Event] = field(default_factory=list[Event])
    ids: list[str | None] = field(default_factory=list[str | None])

    async def until(self, kind: str, count: int = 1) -> Event:
        """Read on until so many events of a type have come."""
        with anyio.fail_after(PATIENCE):
            while True:
                found = [event for event in self.events if event["type"] == kind]
                if len(found) >= count:
                    return found[count - 1]
                self._take(await anext(self._chunks))

    async def rest(self) -> list[Event]:
        """Read to the end of the body."""
        with anyio.fail_after(PATIENCE):
            async for chunk in self._chunks:
                self._take(chunk)
        return self.events

    async def json(self) -> Event:
        """What came instead of a stream."""
        with anyio.fail_after(PATIENCE):
            found: Event = json.loads(b"".join([chunk async for chunk in self._chunks]))
        return found

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def _take(self, chunk: bytes) -> None:
        self.raw += chunk
        whole, _, _ = self.raw.rpartition(b"\n\n")
        frames = [frame for frame in whole.split(b"\n\n") if frame]
        self.events, self.ids = [], []
        for frame in frames:
            lines = frame.decode().split("\n")
            data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
            if data:
                self.events.append(json.loads("".join(data)))
                ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
                self.ids.append(ids[0] if ids else None)


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """Talks to one agent of one daemon."""

    http: httpx2.AsyncClient
    project: str
    agent: str = "default"
    thread: str = "t1"

    def input(self, text: str = "", **changed: Any) -> Event:
        """An input of one message, with members changed; those set to None are left out."""
        run_id = changed.get("runId", "r1")
        messages = [{"id": f"m-{run_id}", "role": "user", "content": text}] if text else []
        full = {
            "threadId": self.thread,
            "runId": run_id,
            "messages": messages,
            "tools": [],
            "context": [],
            "state": {},
            "forwardedProps": {"project_dir": self.project},
            "protocolVersion": "1.0",
        }
        return {k: v for k, v in (full | changed).items() if v is not None}

    @asynccontextmanager
    async def streams(
        self, what: str, given: Event, headers: dict[str, str] | None = None
    ) -> AsyncGenerator[Body]:
        url = f"/agui/agent/{self.agent}/{what}"
        async with self.http.stream("POST", url, json=given, headers=headers) as answer:
            yield Body(answer.status_code, answer.headers, answer.aiter_raw())

    async def run(self, text: str = "", **changed: Any) -> Body:
        """One run, to its end."""
        async with self.streams("run", self.input(text, **changed)) as body:
            await body.rest()
        return body

    async def connect(self, last_event_id: str | None = None, **changed: Any) -> Body:
        headers = {"last-event-id": last_event_id} if last_event_id else None
        async with self.streams("connect", self.input(**changed), headers) as body:
            await body.rest()
        return body

    async def refused(self, what: str, given: Any, **headers: str) -> tuple[int, Event]:
        """A request that becomes no stream: its status and its JSON."""
        content = given if isinstance(given, bytes) else json.dumps(given).encode()
        answer = await self.http.post(
            f"/agui/agent/{self.agent}/{what}",
            content=content,
            headers={"content-type": "application/json"} | headers,
        )
        return answer.status_code, answer.json()


@asynccontextmanager
async def a_front_end(daemon: Host, token: str = TOKEN) -> AsyncGenerator[FrontEnd]:
    async with httpx2.AsyncClient(
        base_url=f"http://127.0.0.1:{daemon.port}",
        headers={"authorization": f"Bearer {token}"},
        timeout=PATIENCE,
        limits=httpx2.Limits(max_connections=None),
        trust_env=False,
    ) as http:
        yield FrontEnd(http, str(daemon.project), thread=getattr(daemon, "thread", "t1"))
