"""`POST …/stop/{threadId}`: end the open run of a thread as cancelled; its worker goes on. Pure."""

from collections.abc import Iterable

import msgspec

from agui.endpoint.refusal import Refused
from agui.endpoint.visit import Visit, said
from sessions.domain.keys import clean_dir
from sessions.domain.ports import ThreadView


class _Props(msgspec.Struct):
    project_dir: str | None = None


class StopRequest(msgspec.Struct, rename="camel"):
    """The body, which may be left out."""

    run_id: str | None = None
    forwarded_props: _Props | None = None

    def thread(
        self, views: Iterable[ThreadView], thread_id: str, project_dir: str | None
    ) -> ThreadView | None:
        """The thread that is meant. Raises Refused when it could be another, or its run is over."""
        named = (self.forwarded_props and self.forwarded_props.project_dir) or project_dir
        wanted = None if named is None else clean_dir(named)
        found = [
            view
            for view in views
            if view.conversation_id == thread_id and wanted in (None, view.project_dir)
        ]
        if len(found) > 1:
            text = (
                "Several projects have a thread of this id: name one in forwardedProps.project_dir."
            )
            raise Refused(409, "ambiguous_thread", text)
        if not found:
            return None
        if self.run_id is not None and found[0].run_id not in (None, self.run_id):
            raise Refused(
                409, "other_run", "Another run is open on this thread. Nothing was stopped."
            )
        return found[0]


_stop_request = msgspec.json.Decoder(StopRequest)


def read_stop(content: bytes) -> StopRequest:
    """Raises Refused."""
    try:
        return _stop_request.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise Refused(400, "bad_input", "The body is not what a stop may have.") from exc


def stopped(visit: Visit) -> dict[str, object]:
    """Interrupt the run of the visited thread. Raises Refused."""
    visit.open({})
    visit.hand_over({"type": "interrupt"})
    for frame, _ in visit.follower.take():
        found = said(frame)
        if found.refuses:
            raise Refused(403, found.code or "not_allowed", found.message)
    return {"stopped": True}
