"""The commands of one client that are on their way: sent, sent again after an outage, answered.

A command keeps its envelope, to the byte, for as long as it waits. While the connection is down its
time stands still. Decides nothing about connections.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from connection.commands import COMMANDS
from connection.failures import (
    CapabilityUnavailable,
    ConnectionFailure,
    Disconnected,
    RequestTimedOut,
    refused,
)
from connection.negotiation import Offer
from connection.records import (
    PROTOCOL,
    VERSION,
    Envelope,
    ListItem,
    ListProgress,
    ProtocolName,
    Response,
    encode,
)

Put = Callable[[bytes], None]
Listed = ListItem | ListProgress
"""What comes of a list before the response that ends it."""


@dataclass(slots=True, eq=False)
class Request:
    """One command, until it is answered."""

    id: str
    name: str
    fields: dict[str, object]
    line: bytes
    deadline: float
    on_response: Callable[[Response], None] | None = None
    """Is called before anything behind the response is read. Such a request is never sent again."""
    response: Response | None = None
    failure: ConnectionFailure | None = None
    _listed: list[Listed] = field(default_factory=list[Listed])
    _news: anyio.Event = field(default_factory=anyio.Event)
    _left: float | None = None
    """What was left of its time when the connection was lost."""
    _scope: anyio.CancelScope | None = None

    @property
    def is_settled(self) -> bool:
        """It has its one outcome, which whoever waits may not have taken yet."""
        return self.response is not None or self.failure is not None

    def settle(self) -> None:
        """Wake whoever waits for the outcome."""
        self._news.set()

    def listed(self, record: Listed) -> None:
        """A part of a list has come, for whoever waits."""
        self._listed.append(record)
        self._news.set()

    def forget_listed(self) -> None:
        """The list will begin anew."""
        self._listed.clear()

    async def wait(self, take: Callable[[Listed], None] = lambda record: None) -> Response:
        """The response; before it `take` is given the parts of a list. Raises ConnectionFailure."""
        with anyio.CancelScope(deadline=self.deadline) as self._scope:
            while True:
                parts, self._listed = self._listed, []
                for part in parts:
                    take(part)
                if self.is_settled:
                    break
                await self._news.wait()
                self._news = anyio.Event()
        if self.failure is not None:
            raise self.failure
        response = self.response
        if response is None:
            raise RequestTimedOut(f"{self.name}: the daemon did not answer in time")
        if response.success:
            return response
        code = response.error_info.code if response.error_info else "failed"
        if code == "capability_unavailable" and response.error_info:
            raise CapabilityUnavailable(response.error_info.capability or self.name)
        raise refused(code, response.error or "it was refused without a reason")

    def pause(self, now: float) -> None:
        """The connection is down: no time passes."""
        if self._left is None:
            self._left = self.deadline - now
            self._move_deadline(math.inf)

    def resume(self, now: float) -> None:
        if self._left is not None:
            self._move_deadline(now + self._left)
            self._left = None

    def _move_deadline(self, deadline: float) -> None:
        self.deadline = deadline
        if self._scope is not None:
            self._scope.deadline = deadline


class Requests:
    """All of them, by id."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._waiting: dict[str, Request] = {}
        self._count = 0

    def make(
        self,
        name: str,
        fields: dict[str, object],
        now: float,
        on_response: Callable[[Response], None] | None = None,
    ) -> Request:
        """A command that waits from now on; put its line, then wait for it, then `forget` it."""
        request_id = self._next_id("daemon")
        request = Request(
            request_id,
            name,
            fields,
            self._envelope(request_id, {"type": name, **fields}),
            now + COMMANDS[name].timeout,
            on_response,
        )
        self._waiting[request_id] = request
        return request

    def forget(self, request: Request) -> None:
        self._waiting.pop(request.id, None)

    def acknowledgement(self, request: Request) -> bytes:
        """Tells the daemon that a result need not be kept."""
        fields: dict[str, object] = {"type": "ack_result", "commandId": request.id}
        return self._envelope(self._next_id("daemon_ack"), fields)

    def answered(self, response: Response) -> None:
        """A late answer to nobody is nothing."""
        request = self._waiting.get(response.id)
        if request is None or request.is_settled:
            return
        request.response = response
        if request.on_response is not None:
            request.on_response(response)
        request.settle()

    def listed(self, record: Listed) -> None:
        if (request := self._waiting.get(record.id)) is not None:
            request.listed(record)

    def lost(self, now: float) -> None:
        """The connection is down: what belongs to it fails, the others wait."""
        for request in tuple(self._waiting.values()):
            if request.on_response is not None:
                self._fail(request, Disconnected("the connection was lost before it was answered"))
            else:
                request.forget_listed()
                request.pause(now)

    def send_again(self, offer: Offer, put: Put, now: float) -> None:
        """The connection is up: the same envelopes go out, unless this daemon can't take them."""
        for request in tuple(self._waiting.values()):
            if request.on_response is not None or request.is_settled:
                continue
            try:
                offer.check(request.name, request.fields, after_reconnect=True)
            except CapabilityUnavailable as exc:
                self._fail(request, exc)
                continue
            request.resume(now)
            put(request.line)

    def fail_all(self, reason: str) -> None:
        """There will be no answers any more."""
        for request in tuple(self._waiting.values()):
            self._fail(request, Disconnected(reason))

    def _fail(self, request: Request, failure: ConnectionFailure) -> None:
        if not request.is_settled:
            request.failure = failure
            request.settle()

    def _next_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count}"

    def _envelope(self, envelope_id: str, command: dict[str, object]) -> bytes:
        return encode(
            Envelope(
                type="command",
                id=envelope_id,
                protocol=ProtocolName(name=PROTOCOL, version=VERSION),
                client_id=self.client_id,
                command=command,
            )
        )
