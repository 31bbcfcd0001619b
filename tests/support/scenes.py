"""A registry with fake workers, and the words that tests tell their stories in."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio import wait_all_tasks_blocked

from sessions.domain.settings import RegistrySettings
from sessions.registry import Registry
from tests.support.fakes import FakeClient, FakeLauncher, FakeWorker

PROJECT = "/work/project"
READY = b'{"type":"ready","protocol":1,"version":"test"}'


def line(type_: str, **fields: Any) -> bytes:
    """A worker's line, as compact JSON."""
    return json.dumps({"type": type_, **fields}, separators=(",", ":")).encode()


def run_started(run_id: str = "r1") -> bytes:
    return line("RUN_STARTED", threadId="c1", runId=run_id, protocolVersion="1.0")


def run_finished(run_id: str = "r1") -> bytes:
    return line("RUN_FINISHED", threadId="c1", runId=run_id, outcome={"type": "success"})


def run_asked(*interrupts: str, run_id: str = "r1") -> bytes:
    """The end of a run that waits for a person."""
    asked = [{"id": i, "reason": "tool_call", "toolCallId": i} for i in interrupts]
    outcome = {"type": "interrupt", "interrupts": asked}
    return line("RUN_FINISHED", threadId="c1", runId=run_id, outcome=outcome)


def snapshot(*texts: str) -> bytes:
    messages = [{"id": f"m{n}", "role": "user", "content": t} for n, t in enumerate(texts)]
    return line("MESSAGES_SNAPSHOT", messages=messages)


def text(delta: str, message_id: str = "m1") -> bytes:
    return line("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=delta)


def message(content: str = "hello", message_id: str = "u1") -> bytes:
    """A client's run input with one message."""
    messages = [{"id": message_id, "role": "user", "content": content}]
    return line("run_agent_input", input={"threadId": "c1", "runId": "x", "messages": messages})


def resume(*answered: str, status: str = "resolved", messages: tuple[str, ...] = ()) -> bytes:
    """A client's answer to interrupts."""
    entries = [{"interruptId": i, "status": status} for i in answered]
    new = [{"id": m, "role": "user", "content": m} for m in messages]
    return line("run_agent_input", input={"messages": new, "resume": entries})


class Scene:
    """One registry; thread "c1" of PROJECT unless a step says otherwise."""

    def __init__(self, registry: Registry, launcher: FakeLauncher) -> None:
        self.registry = registry
        self.launcher = launcher

    @property
    def worker(self) -> FakeWorker:
        return self.launcher.worker

    def sends(self, client: FakeClient, frame: bytes) -> None:
        self.registry.handle(client, frame)

    def opens(
        self, client: FakeClient, id_: str = "c1", project: str = PROJECT, **options: Any
    ) -> None:
        frame = line("resume_conversation", project_dir=project, id=id_, **options)
        self.registry.handle(client, frame)

    async def worker_says(self, *lines: bytes) -> None:
        self.worker.says(*lines)
        await wait_all_tasks_blocked()

    async def worker_dies(self, reason: str = "was killed by SIGKILL") -> None:
        self.worker.exit(reason)
        await wait_all_tasks_blocked()

    async def follows(self, client: FakeClient, id_: str = "c1") -> None:
        """Open, and be answered; the worker is launched and made ready when there is none."""
        launched = len(self.launcher.workers)
        self.opens(client, id_)
        await wait_all_tasks_blocked()
        if len(self.launcher.workers) > launched:
            await self.worker_says(READY)
        await self.worker_says(snapshot())
        client.received.clear()


@asynccontextmanager
async def a_registry(**settings: Any) -> AsyncGenerator[Scene]:
    """A registry that serves, and ends at once when the story is over."""
    launcher = FakeLauncher()
    registry = Registry(launcher, RegistrySettings(**settings))
    async with registry.serving():
        yield Scene(registry, launcher)
        for worker in launcher.workers:
            worker.exit("exited with code 0")
        await wait_all_tasks_blocked()


@asynccontextmanager
async def a_followed_thread(**settings: Any) -> AsyncGenerator[tuple[Scene, FakeClient]]:
    """Thread c1 with a ready worker and one live follower."""
    async with a_registry(**settings) as scene:
        client = FakeClient("desktop")
        with anyio.fail_after(30):
            await scene.follows(client)
        yield scene, client
