"""A worker of somebody else: it names runs itself, gives messages new ids in each snapshot, writes
chunks, knows no commands, and misbehaves when it is told to."""

import itertools
import json
import sys
from typing import Any

numbers = itertools.count(1)
history: list[tuple[str, str]] = []


def say(kind: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def run(given: dict[str, Any]) -> None:
    texts = [str(message["content"]) for message in given["messages"]]
    history.extend(("user", text) for text in texts)
    name = f"own-{next(numbers)}"
    say("RUN_STARTED", threadId="mine", runId=name)
    if "orphan" in texts:
        say("TEXT_MESSAGE_END", messageId="nothing")
    if "vanish" in texts:
        sys.exit(3)
    answer = f"{len(texts)}: {'|'.join(texts)}"
    say("TEXT_MESSAGE_CHUNK", messageId=f"m-{next(numbers)}", delta=answer[:2])
    say("BREAKING_NEWS", headline="unknown")
    say("TEXT_MESSAGE_CHUNK", delta=answer[2:], surprise=True)
    history.append(("assistant", answer))
    say("RUN_FINISHED", threadId="mine", runId=name)


for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] in ("new_session", "resume_conversation"):
        told = [{"id": f"s-{next(numbers)}", "role": r, "content": c} for r, c in history]
        say("MESSAGES_SNAPSHOT", messages=told)
    elif frame["type"] == "run_agent_input":
        run(frame["input"])
