"""What a worker wrote, judged: line by line by the library's types, as a stream by the verifier."""

from collections.abc import Iterable

from ag_ui.core import Event
from pydantic import TypeAdapter

from tests.agent.support.fakes import Line
from tests.support.judge import Recording, Verdict, judged

_EVENT: TypeAdapter[object] = TypeAdapter(Event)


def judge(lines: Iterable[Line]) -> Verdict:
    """Fails on a line or an order that AG-UI 1.0 does not know; skips without the verifier."""
    recording = Recording.of("worker", [{"type": "MESSAGES_SNAPSHOT", "messages": []}, *lines])
    for event in recording.events:
        _EVENT.validate_python(event)
    return judged(recording)["worker"]
