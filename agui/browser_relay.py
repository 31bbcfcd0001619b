"""The browser relay: commands of workers and clients, for the one browser extension attached.

Joins the turns (`agui.browser_turns`) to the clock and to the connections. Implements the port
`BrowserRelay`. It has no task of its own: whoever waits for a result also minds the deadlines.
"""

from collections.abc import Hashable

import anyio
import structlog

from agui.browser_frames import status
from agui.browser_turns import BrowserTurns
from agui.websocket_client import WebSocketClient

# Of the codes that are an application's own.
REPLACED_BY_ANOTHER = 4001

log = structlog.get_logger()


class ExtensionRelay:
    """One for the whole daemon."""

    def __init__(self, longest_result: int) -> None:
        self._turns = BrowserTurns(longest_result)
        self._listeners: set[WebSocketClient] = set()
        self._status = status(connected=False)
        self._changed = anyio.Event()

    def listens_on(self, port: int) -> None:
        """Lets the error for a missing extension say where one would have to connect."""
        self._turns.how_to_connect = (
            f"open the browser with the extension, and set its port to {port} and its token to"
            " the one of this daemon (the file 'token' in the roost home)"
        )

    # Connections

    def join(self, client: WebSocketClient) -> None:
        """A client said hello and got its acknowledgement."""
        if client.hello.kind != "extension":
            self._listeners.add(client)
            client.deliver(self._status, None)
            return
        replaced = self._turns.attach(client)
        if isinstance(replaced, WebSocketClient):
            log.info("extension_replaced")
            replaced.end(REPLACED_BY_ANOTHER)
        self._tell(connected=True, version=client.hello.attributes.get("extension_version"))

    def leave(self, client: WebSocketClient) -> None:
        """Its connection has ended."""
        self._listeners.discard(client)
        if self._turns.detach(client):
            self._tell(connected=False)

    def take_result(self, client: WebSocketClient, frame: bytes) -> None:
        """A `browser_result` came in. One that answers nothing is dropped."""
        if self._turns.result(client, frame):
            self._stir()
        else:
            log.debug("browser_result_dropped")

    # Commands

    async def forward(self, command: bytes) -> bytes:
        """Exactly one result, within the command's deadline. The port of the registry."""
        return await self.run(command, object())

    async def run(self, command: bytes, source: Hashable) -> bytes:
        """The same for a source that takes its turns among the others."""
        results: list[bytes] = []
        errand = self._turns.submit(command, source, results.append, anyio.current_time())
        if errand is None:
            return results[0]
        self._stir()
        try:
            while not results:
                deadline = self._turns.next_deadline
                with anyio.CancelScope(deadline=_never(deadline)):
                    await self._changed.wait()
                # Whoever waits wakes at the same deadline, so nobody has to be told.
                self._turns.expire(anyio.current_time())
        finally:
            if not results:
                self._turns.give_up(errand)
        return results[0]

    def _tell(self, *, connected: bool, version: str | None = None) -> None:
        self._status = status(connected=connected, extension_version=version)
        for client in self._listeners:
            client.deliver(self._status, None)
        self._stir()

    def _stir(self) -> None:
        """Wake who waits: there may be a result, or another deadline to mind."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def _never(deadline: float | None) -> float:
    return float("inf") if deadline is None else deadline
