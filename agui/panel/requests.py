"""What a request to the API must bring: who it is from, and a body that fits.

Raises Refused for everything else; a refusal is one sentence for people and one word for programs.
"""

from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agui.hello import BadHello
from agui.panel.sign_in import SignIn
from agui.peers import Peers
from agui.security import bearer_token, same_token
from sessions.domain.keys import BadKey, ThreadKey

LONGEST_BODY = 64 * 2**10

Body = TypeVar("Body")


class Refused(Exception):
    """An answer instead of the one that was asked for."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code

    def response(self) -> Response:
        """As JSON, like every answer of the API."""
        return answer({"error": str(self), "code": self.code}, self.status)


class Named(msgspec.Struct):
    """A body that names a conversation."""

    project_dir: str
    id: str

    def key(self) -> ThreadKey:
        """Raises Refused."""
        try:
            return ThreadKey.parse(self.project_dir, self.id)
        except BadKey as exc:
            raise Refused(422, "bad_request", str(exc)) from exc


class Rename(Named):
    name: str


class Nothing(msgspec.Struct):
    """An object that says nothing more than the route does."""


class Link(msgspec.Struct):
    """The secret of a sign-in link."""

    link: str


class Door:
    """Lets in the daemon's token and the panel's sessions, from outside of any worker."""

    def __init__(self, token: str, sign_in: SignIn, peers: Peers) -> None:
        self._token = token
        self._sign_in = sign_in
        self._peers = peers

    async def admit(self, request: Request, *, only_token: bool = False) -> str | None:
        """Who asks: a session, or None for the daemon's token. Raises Refused."""
        given = bearer_token(request.scope["headers"])
        session = None
        if not same_token(given, self._token):
            session = self._sign_in.session_of(given) if given and not only_token else None
            if session is None:
                raise Refused(401, "sign_in", "You are not signed in. Run 'roost panel' again.")
        await self.keep_insiders_out(request)
        return session

    async def keep_insiders_out(self, request: Request) -> None:
        """A program that a worker started decides nothing, whatever it shows. Raises Refused."""
        if request.client is None:
            return
        try:
            inside = await self._peers.inside(request.client.port)
        except BadHello as exc:
            raise Refused(403, "not_allowed", f"This request is not let in: {exc}.") from exc
        if inside is not None:
            raise Refused(403, "not_allowed", "A program inside a worker may not use the panel.")


async def body_of(request: Request, kind: type[Body]) -> Body:
    """The JSON body of a request. Raises Refused."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refused(415, "not_json", "Send JSON, with the content type application/json.")
    raw = b""
    async for piece in request.stream():
        raw += piece
        if len(raw) > LONGEST_BODY:
            raise Refused(413, "too_long", f"At most {LONGEST_BODY // 2**10} KiB are taken.")
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Refused(422, "bad_request", f"The body does not fit: {exc}.") from exc


def answer(content: object, status: int = 200) -> Response:
    """JSON that no cache keeps."""
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(content, status, headers)
