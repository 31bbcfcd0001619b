"""`GET /status`: what the daemon knows of its threads, for `roost status`."""

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import anyio

from agui.hello import PROTOCOL_VERSION
from agui.security import bearer_token, same_token
from sessions.domain.ports import Threads, ThreadView

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRoute:
    """The handler of the route. Ages instead of stamps: the registry's clock is its own."""

    threads: Threads
    token: str
    version: str
    pid: int
    started: float
    """On the clock of `time.monotonic`."""

    async def respond(self, request: "Request") -> "Response":
        """Answer one request, if it brings the token."""
        from starlette.responses import JSONResponse  # see agui.http_app

        if not same_token(bearer_token(request.scope["headers"]), self.token):
            return JSONResponse(
                {"error": "Send the binding's token as 'Authorization: Bearer <token>'."},
                status_code=401,
                headers={"www-authenticate": "Bearer"},
            )
        now = anyio.current_time()
        return JSONResponse(
            {
                "version": self.version,
                "protocol_version": PROTOCOL_VERSION,
                "pid": self.pid,
                "up_seconds": round(time.monotonic() - self.started, 3),
                "threads": [_shown(view, now) for view in self.threads.views()],
            },
            headers={"cache-control": "no-store"},
        )


def _shown(view: ThreadView, now: float) -> dict[str, object]:
    shown = asdict(view)
    del shown["cursor"]  # a place among events, which says nothing to a person
    shown["for_seconds"] = round(max(0.0, now - shown.pop("since")), 3)
    return shown
