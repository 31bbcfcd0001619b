"""`GET|HEAD /artifacts/<project slug>/<path>`: files that agents made, for anybody on this machine.

No token: pages and apps show them by their URL. So an artifact is never a page that can act: it
runs no script, has no origin of its own, and no other origin may read it. Imported with the first
HTTP request only (see `agui.http_app`).
"""

import os
from dataclasses import dataclass
from mimetypes import guess_type
from pathlib import Path

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from agui.artifact_files import NoSuchArtifact, OpenArtifact, open_artifact

PREFIX = "/artifacts/"

HEADERS = {
    "content-security-policy": (
        "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self' data:;"
        " style-src 'self' 'unsafe-inline'; font-src 'self' data:"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # They change under the same name, as agents go on.
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class ArtifactsRoute:
    """The handler of the route."""

    projects: Path

    async def respond(self, request: Request) -> Response:
        raw_path: bytes = request.scope["raw_path"].removeprefix(PREFIX.encode())
        try:
            artifact = await anyio.to_thread.run_sync(open_artifact, self.projects, raw_path)
        except NoSuchArtifact:
            return PlainTextResponse("There is no such artifact.\n", 404, HEADERS)
        return _OpenFileResponse(artifact)


class _OpenFileResponse(FileResponse):
    """Serves a file that is open already: its path could lead elsewhere by now."""

    def __init__(self, artifact: OpenArtifact) -> None:
        super().__init__(
            f"/dev/fd/{artifact.descriptor}",
            headers=HEADERS,
            media_type=_media_type(artifact.name),
            stat_result=artifact.stat,
        )
        self._descriptor = artifact.descriptor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)


def _media_type(name: str) -> str:
    kind, encoding = guess_type(name)
    # Of a compressed file the guess is the type of what is in it.
    return kind if kind is not None and encoding is None else "application/octet-stream"
