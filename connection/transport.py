"""One connection to the daemon: lines out, records in, and the word of why it ended.

It is made around a stream by whoever owns it, and serves until the stream ends. Lines are put, not
sent, so that no one who gives up can tear a line: what the socket takes is written at once, and a
task writes the rest.
"""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from connection.failures import BrokenProtocol, HandshakeRefused
from connection.local_stream import LocalStream
from connection.negotiation import REVISION, Offer, offer_of
from connection.records import DaemonHello, FromDaemon, from_daemon
from sessions.domain.splitter import LineSplitter, LineTooLong

Dial = Callable[[], Awaitable[LocalStream]]
"""Opens a connection to the daemon. Raises OSError when nobody is there."""

HELLO_TIMEOUT = 10.0
_LONGEST_LINE = 256 * 2**20
_WRITE_TIMEOUT = 10.0


class Transport:
    """A stream, once it was dialled. `serve` it, then wait for its hello."""

    def __init__(
        self,
        stream: LocalStream,
        take: Callable[["Transport", FromDaemon], None],
        gone: Callable[["Transport"], None],
        revision: int = REVISION,
    ) -> None:
        self._stream = stream
        self._revision = revision
        self._take = take
        self._gone = gone
        self._unsent: list[bytes] = []
        self._is_writing = False
        """There is a task that writes what the socket did not take."""
        self._tasks: TaskGroup | None = None
        self._has_hello = anyio.Event()
        self._refusal: HandshakeRefused | None = None
        self.offer = Offer(0, frozenset())
        self.ended = anyio.Event()
        self.reason = "the connection ended"

    def put(self, line: bytes) -> None:
        """Have a line written in its turn, once it serves. Put after the end, it goes nowhere."""
        if self._tasks is None or self.ended.is_set():
            return
        self._unsent += (line, b"\n")
        if not self._is_writing:
            self._unsent = [rest] if (rest := self._stream.send_now(b"".join(self._unsent))) else []
            if rest:
                self._is_writing = True
                self._tasks.start_soon(self._write)

    async def hello(self) -> Offer:
        """What the daemon offers. Raises HandshakeRefused."""
        with anyio.move_on_after(HELLO_TIMEOUT):
            await self._has_hello.wait()
        if self._refusal is not None:
            raise self._refusal
        if not self._has_hello.is_set() or self.ended.is_set():
            raise HandshakeRefused(f"the daemon said no hello: {self.reason}")
        return self.offer

    async def serve(self, tasks: TaskGroup) -> None:
        """Read until the stream ends, and write, in the owner's tasks. It is its owner's to close.

        What is left to write then is not waited for: the owner ends its tasks.
        """
        self._tasks = tasks
        try:
            await self._read()
        finally:
            self.ended.set()
            self._has_hello.set()
            self._gone(self)

    async def _read(self) -> None:
        splitter = LineSplitter(_LONGEST_LINE)
        try:
            while True:
                for line in splitter.feed(await self._stream.receive()):
                    if line.strip() and (record := from_daemon(line)) is not None:
                        self._note(record)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.reason = "the connection to the daemon was lost"
        except (BrokenProtocol, LineTooLong) as exc:
            self.reason = str(exc)
        except HandshakeRefused as exc:
            self._refusal = exc

    def _note(self, record: FromDaemon) -> None:
        if isinstance(record, DaemonHello):
            if self._has_hello.is_set():
                return  # what was negotiated holds for as long as the connection
            self.offer = offer_of(record).up_to(self._revision)
            self._has_hello.set()
        else:
            self._take(self, record)

    async def _write(self) -> None:
        while self._unsent:
            blob, self._unsent = b"".join(self._unsent), []
            try:
                with anyio.fail_after(_WRITE_TIMEOUT):
                    await self._stream.send(blob)
            except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                # The reader notices, or is made to.
                await self._stream.aclose()
                return
        self._is_writing = False
