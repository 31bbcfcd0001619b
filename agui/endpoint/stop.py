"""`POST …/stop/{threadId}`: end the open run of a thread as cancelled; its worker goes on. Pure."""

from collections.abc import Iterable

import msgspec

from agui.endpoint.agents import Agent
from agui.endpoint.refusal import Refused, bad_value
from agui.endpoint.visit import Visit, said
from sessions.domain.ports import ThreadView


class _Props(msgspec.Struct):
    project_dir: str | None = None


class StopRequest(msgspec.Struct, rename="camel"):
    """The body, which may be left out."""

    run_id: str | None = None
    forwarded_props: _Props | None = None

    def thread(
        self, views: Iterable[ThreadView], agent: Agent, thread_id: str
    ) -> ThreadView | None:
        """The thread that is meant. Raises Refused when it could be another, or its run is over."""
        named = self.forwarded_props.project_dir if self.forwarded_props else None
        found = [view for view in views if view.conversation_id == thread_id]
        if named or agent.project_dir:
            wanted = agent.thread(named, thread_id)
            found = [view for view in found if view.project_dir == wanted.project_dir]
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
    except msgspec.ValidationError as exc:
        raise bad_value(exc) from exc
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise Refused(400, "bad_json", "The body is not JSON.") from exc


def stopped(visit: Visit) -> dict[str, object]:
    """Interrupt the run of the visited thread. Raises Refused."""
    visit.open({})
    visit.hand_over({"type": "interrupt"})
    for frame, _ in visit.follower.take():
        found = said(frame)
        if found.refuses:
            raise Refused(403, found.code or "not_allowed", found.message)
    return {"stopped": True}
