"""Reading a request to `/agui`: who sends it, what is in it. Refuses what does not fit.

Host and Origin were checked before (`agui.guard`). The token is checked before anything else is
looked at, and the body is read only then.
"""

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import anyio
from starlette.requests import ClientDisconnect, Request

from agui.endpoint.refusal import Refused
from agui.hello import BadHello
from agui.peers import Peers
from agui.security import bearer_token, same_token
from agui.settings import BindingSettings
from agui.uvicorn_http import EXTENSION
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import Threads

# A body comes from this machine; who takes longer for it keeps a connection for nothing.
_BODY_TIMEOUT = 30.0


class Gone(Exception):
    """The client left before it was answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Reception:
    """Judges what every request has to bring."""

    threads: Threads
    settings: BindingSettings
    peers: Peers
    _known: WeakKeyDictionary[object, ThreadKey | None] = field(
        default_factory=WeakKeyDictionary[object, "ThreadKey | None"]
    )
    """What was found of connections: each is looked up once, as on the WebSocket."""

    async def inside(self, request: Request) -> ThreadKey | None:
        """The thread inside whose worker the client is; None for a person's. Raises Refused."""
        token = bearer_token(request.scope["headers"])
        if not same_token(token, self.settings.token):
            inside = self.threads.worker_with(token) if token else None
            if inside is None:
                text = "Send the binding's token as 'Authorization: Bearer <token>'."
                raise Refused(401, "bad_token", text)
            return inside
        connection = request.scope.get("extensions", {}).get(EXTENSION)
        if connection is None or connection not in self._known:
            found = await self._found(request)
            if connection is None:
                return found
            self._known[connection] = found
        return self._known[connection]

    async def _found(self, request: Request) -> ThreadKey | None:
        address = request.client
        try:
            return None if address is None else await self.peers.inside(address.port)
        except BadHello as exc:
            raise Refused(403, "not_allowed", f"This may not be: {exc}.") from exc

    async def body(self, request: Request, *, is_optional: bool = False) -> bytes:
        """The body, which has to be JSON. Raises Refused, Gone."""
        content = await self._content(request)
        kind = request.headers.get("content-type", "")
        if is_optional and not content and not kind:
            return b"{}"
        # Pages of others may send other types without a question, so no other is taken.
        if not _is_json(kind):
            raise Refused(415, "bad_type", "Send the body as 'Content-Type: application/json'.")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "bad_encoding", "Send the body as it is, without Content-Encoding.")
        return content

    async def _content(self, request: Request) -> bytes:
        limit = self.settings.max_frame_bytes
        declared = request.headers.get("content-length", "0")
        content = bytearray()
        with anyio.move_on_after(_BODY_TIMEOUT):
            try:
                if not declared.isdecimal() or int(declared) <= limit:
                    async for chunk in request.stream():
                        content += chunk
                        if len(content) > limit:
                            break
                    else:
                        return bytes(content)
            except ClientDisconnect as exc:
                raise Gone from exc
            text = f"The body is larger than {limit:,} bytes. Nothing was run."
            raise Refused(413, "too_large", text)
        text = f"The body did not come in {_BODY_TIMEOUT:g} s. Nothing was run."
        raise Refused(408, "too_slow", text)


def _is_json(content_type: str) -> bool:
    """JSON, and in UTF-8, which is what it is without a word about that."""
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = {p.removeprefix("charset=").strip('"') for p in parameters if p[:8] == "charset="}
    return kind == "application/json" and charsets <= {"utf-8", "utf8"}
