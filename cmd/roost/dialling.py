"""Dial the WebSocket binding of a daemon, as each program of ours that is a client does."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Literal

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agui.hello import PROTOCOL_VERSION

# The daemon gives a client 5 s for its hello; a busy machine may take longer to acknowledge it.
_ACK_TIMEOUT = 30.0


class HelloRefused(Exception):
    """The daemon closed the connection on our hello: the token is not its own, most likely."""


@asynccontextmanager
async def dial(
    host: str,
    port: int,
    token: str,
    kind: Literal["desktop", "extension"] = "desktop",
    attributes: Mapping[str, str] | None = None,
) -> AsyncGenerator[ClientConnection]:
    """A connection whose hello was acknowledged; the next frame is the first one after that.

    Attributes go into the hello as they are; they can't take the place of what the hello itself
    says. Raises HelloRefused, OSError, TimeoutError, and what the library raises for a host that
    speaks no WebSocket.
    """
    hello: dict[str, object] = {
        **(attributes or {}),
        "type": "browser_hello",
        "client": kind,
        "protocol_version": PROTOCOL_VERSION,
        "token": token,
    }
    url = f"ws://{host}:{port}/ws"
    async with connect(url, max_size=None, proxy=None, compression=None) as socket:
        try:
            with anyio.fail_after(_ACK_TIMEOUT):
                await socket.send(json.dumps(hello))
                await socket.recv()
        except ConnectionClosed as exc:
            raise HelloRefused("the daemon refused the hello; is this its token?") from exc
        yield socket
