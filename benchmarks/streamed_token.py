"""What a streamed token costs in our worker, over what it costs in pydantic-ai alone.

A local server speaks OpenAI's streaming API and sends thousands of tokens as fast as it can, from a
process of its own. Alone: pydantic-ai's `model_request_stream`, events read and dropped. Ours: the
same model in a whole session: framed as events, encoded, written to a pipe that is read, kept in
the transcript and partly on the disk. Processor time of this process, both in one run, in turns.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest, UserPromptPart

from agent.domain.messages import Message
from agent.equipment import Equipment
from agent.infrastructure.archive import ProjectArchive
from agent.infrastructure.jsonl_history import JsonlHistory
from agent.infrastructure.models.catalogue import Catalogue, ProviderAccess
from agent.infrastructure.process import KernelProcesses
from agent.infrastructure.project_files import ProjectFiles
from agent.infrastructure.stdio import StdoutLines
from agent.inputs import RunInput
from agent.opening import open_conversation
from agent.session import Session
from benchmarks.report import figure, machine
from roost.headless.options import new_id, now

TOKENS = 4000
ROUNDS = 9


def serve() -> None:
    """The server: its port on stdout, then the same long answer to every request."""

    def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        value = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        data = b"data: " + json.dumps({**value, "choices": [choice]}).encode() + b"\n\n"
        return b"%x\r\n%s\r\n" % (len(data), data)

    answer = b"".join(chunk({"content": f"word{n} "}) for n in range(TOKENS))
    answer += chunk({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - their name
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


def silent(level: str, event: str, /, **fields: object) -> None:
    """Nobody reads a log here."""


async def alone(models: Catalogue) -> float:
    model = models.find("openai:m").build()
    messages = [ModelRequest([UserPromptPart("hello")])]
    began = time.process_time()
    async with model, model_request_stream(model, messages) as stream:
        async for _ in stream:
            pass
    return (time.process_time() - began) / TOKENS * 1e6


class Nothing:
    """A stdin on which nobody says anything."""

    def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        return self

    async def __anext__(self) -> Sequence[bytes]:
        await anyio.sleep_forever()
        raise StopAsyncIteration


async def ours(models: Catalogue, folder: Path) -> float:
    reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert reader.stdin is not None
    history = JsonlHistory(folder / f"{new_id()}.jsonl", silent)
    recorder = await open_conversation(
        "c", folder, history, [], new_id, now, silent, KernelProcesses()
    )
    model = models.find("openai:m")
    await model.context_window()  # built before the clock runs, as alone: it is no part of a token
    equipment = Equipment(
        model=model,
        model_name="openai:m",
        tools={},
        mode="standard",
        instructions="",
        models=models,
    )

    async def prepare() -> Equipment:
        return equipment

    async def save(name: str, data: bytes) -> str:
        raise NotImplementedError

    lines = StdoutLines(reader.stdin.fileno())
    session = Session(
        recorder,
        lines,
        prepare,
        save,
        new_id,
        silent,
        ProjectFiles(folder, folder, folder, silent),
        ProjectArchive(folder, folder, lambda _: None),
    )
    message = Message(id=new_id(), role="user", content="hello")
    spent = 0.0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lines.serve)
        began = time.process_time()
        await session.accept(RunInput(None, (message,), (), is_empty=False))
        await session.run_alone()
        await lines.flush()
        spent = time.process_time() - began
        tasks.cancel_scope.cancel()
    assert session.last_end is not None
    assert session.last_end.outcome == "success"
    history.close()
    reader.stdin.close()
    reader.wait()
    return spent / TOKENS * 1e6


async def measure(port: int, folder: Path) -> None:
    models = Catalogue(
        default="openai:m",
        access={"openai": ProviderAccess(f"http://127.0.0.1:{port}/v1", "none")},
        environ={},
        new_id=new_id,
        log=silent,
    )
    floor: list[float] = []
    whole: list[float] = []
    for turn in range(ROUNDS + 1):
        with tempfile.TemporaryDirectory(dir=folder) as own:
            pair = (await alone(models), await ours(models, Path(own)))
        if turn:  # the first one imports and connects
            floor.append(pair[0])
            whole.append(pair[1])
    figure("a streamed token in pydantic-ai alone", floor, "us of processor time")
    figure("a streamed token in our worker", whole, "us of processor time")
    ratios = [b / a for a, b in zip(floor, whole, strict=True)]
    figure("ours over pydantic-ai alone", ratios, "x", "aim: at most 1.3")


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        serve()
        return
    print(machine())
    command = [sys.executable, "-m", "benchmarks.streamed_token", "serve"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdout is not None
        try:
            anyio.run(measure, int(server.stdout.readline()), Path(folder).resolve())
        finally:
            server.kill()


if __name__ == "__main__":
    main()
