"""A worker that streams runs without pause and answers opens at any moment, for the storm of cuts.

Each run's end carries a digest of what a client must show by then, so that a client can tell by
itself whether it lost or doubled anything. Told by a message: `storm <runs>`.
"""

import json
import sys
import threading
import time
from typing import Any

from agui.stream.reducer import Reducer
from tests.support.agui_model import snapshot_of
from tests.support.storm_digest import digest_of

_lock = threading.Lock()
_shown = Reducer()
_over = threading.Event()


def emit(event: dict[str, Any]) -> None:
    """One line, which the model of what clients show has taken in."""
    with _lock:
        line = json.dumps(event, separators=(",", ":"))
        _shown.take(line.encode())
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    time.sleep(0.001)


def run(number: int) -> None:
    """One run: text, a tool call in pieces, a step, patches of the state, an activity."""
    run_id, text, call = f"r{number}", f"m{number}", f"t{number}"
    emit({"type": "RUN_STARTED", "threadId": "storm", "runId": run_id})
    if number % 3 == 0:
        emit({"type": "STATE_SNAPSHOT", "snapshot": {"n": number}})
    emit({"type": "STEP_STARTED", "stepName": "s"})
    emit({"type": "TEXT_MESSAGE_START", "messageId": text, "role": "assistant"})
    for piece in range(6):
        emit({"type": "TEXT_MESSAGE_CONTENT", "messageId": text, "delta": f"{number}.{piece} "})
        patch = [{"op": "add", "path": f"/k{piece % 2}", "value": piece}]
        emit({"type": "STATE_DELTA", "delta": patch})
    emit({"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "Bash"})
    emit({"type": "TEXT_MESSAGE_END", "messageId": text})
    for piece in range(4):
        emit({"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": f"a{piece}"})
    emit({"type": "TOOL_CALL_END", "toolCallId": call})
    result = {"type": "TOOL_CALL_RESULT", "messageId": f"x{number}", "toolCallId": call}
    emit({**result, "content": "{}"})
    emit({"type": "STEP_FINISHED", "stepName": "s"})
    with _lock:
        told = digest_of(_shown)
    emit({"type": "RUN_FINISHED", "threadId": "storm", "runId": run_id, "result": told})


def storm(runs: int) -> None:
    for number in range(runs):
        run(number)
    _over.set()
    emit({"type": "storm_over"})


def main() -> None:
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["type"] == "resume_conversation":
            with _lock:
                snapshot = snapshot_of(_shown)
                sys.stdout.write(json.dumps(snapshot, separators=(",", ":")) + "\n")
                sys.stdout.flush()
            if _over.is_set():
                emit({"type": "storm_over"})
        elif frame["type"] == "run_agent_input":
            runs = int(frame["input"]["messages"][0]["content"].split()[1])
            threading.Thread(target=storm, args=(runs,), daemon=True).start()


if __name__ == "__main__":
    main()
