"""`/`: the built page, out of the package. No token: there is nothing in it but the program.

Imported with the first HTTP request only (see `agui.http_app`).
"""

import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from mimetypes import guess_type
from pathlib import Path

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

# Nothing but our own files; no inline script or style; pictures also from memory, since pasted and
# pictured data is shown; nobody may frame the page. Markup is made of trusted types only, and one
# library, which sanitizes, may make them.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "vary": "accept-encoding",
}
# A name with a hash in it never changes its content; the page itself is asked for each time.
_FOREVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


def page_routes(folder: Path) -> Sequence[Route]:
    """A route for each file there is: no path of a request ever becomes one of the disk."""
    routes: list[Route] = []
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            path = "/" if name == "index.html" else f"/{name}"
            routes.append(Route(path, _StaticFile(file, name).respond, methods=["GET"]))
    return routes


class _StaticFile:
    """One file, read and compressed when it is asked for the first time."""

    def __init__(self, file: Path, name: str) -> None:
        self._file = file
        self._headers = {
            **_HEADERS,
            "content-type": _media_type(name),
            "cache-control": _FOREVER if name.startswith("assets/") else _ASK_AGAIN,
        }
        self._loaded: _Loaded | None = None

    async def respond(self, request: Request) -> Response:
        if self._loaded is None:
            self._loaded = await anyio.to_thread.run_sync(_load, self._file)
        is_packed = _takes_gzip(request.headers.get("accept-encoding", ""))
        body, tag = self._loaded.packed if is_packed else self._loaded.plain
        headers = {**self._headers, "etag": tag}
        known = request.headers.get("if-none-match", "")
        if tag in (candidate.strip() for candidate in known.split(",")):
            return Response(status_code=304, headers=headers)
        if is_packed:
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A file's content with its tag, as it is and compressed."""

    plain: tuple[bytes, str]
    packed: tuple[bytes, str]


def _load(file: Path) -> _Loaded:
    body = file.read_bytes()
    tag = hashlib.sha256(body).hexdigest()[:20]
    return _Loaded((body, f'"{tag}"'), (gzip.compress(body, mtime=0), f'"{tag}-gz"'))


def _takes_gzip(accepted: str) -> bool:
    for coding in accepted.lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _media_type(name: str) -> str:
    kind = guess_type(name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
