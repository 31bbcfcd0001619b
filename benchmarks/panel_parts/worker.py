"""A worker whose words say when they were written: a line each tenth of a second."""

import json
import sys
import time
from typing import Any

WORDS = 60
PAUSE = 0.1


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        match json.loads(line)["type"]:
            case "new_session" | "resume_conversation":
                say(type="MESSAGES_SNAPSHOT", messages=[])
            case "run_agent_input":
                say(type="RUN_STARTED", threadId="t", runId="r", input={})
                say(type="TEXT_MESSAGE_START", messageId="m", role="assistant")
                for _ in range(WORDS):
                    time.sleep(PAUSE)
                    delta = f"{time.time() * 1000:.3f} "
                    say(type="TEXT_MESSAGE_CONTENT", messageId="m", delta=delta)
                say(type="TEXT_MESSAGE_END", messageId="m")
                say(type="RUN_FINISHED", threadId="t", runId="r", outcome={"type": "success"})
            case _:
                pass


if __name__ == "__main__":
    main()
