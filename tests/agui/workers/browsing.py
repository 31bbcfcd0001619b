"""A foreign worker whose every run asks the browser once, and says what it was answered."""

import json
import sys


def say(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    thread = sys.argv[sys.argv.index("--session-id") + 1]
    run = 0
    for text in sys.stdin:
        frame = json.loads(text)
        if frame["type"] in ("new_session", "resume_conversation"):
            say(type="MESSAGES_SNAPSHOT", messages=[])
        elif frame["type"] == "run_agent_input":
            run += 1
            say(type="RUN_STARTED", threadId=thread, runId=f"{thread}-{run}")
            say(type="browser_command", id=f"{thread}-{run}", action="tabs", timeout_ms=300_000)
        elif frame["type"] == "browser_result":
            say(type="TEXT_MESSAGE_START", messageId=frame["id"], role="assistant")
            answer = frame["error"] or frame["title"]
            say(type="TEXT_MESSAGE_CONTENT", messageId=frame["id"], delta=answer)
            say(type="TEXT_MESSAGE_END", messageId=frame["id"])
            say(
                type="RUN_FINISHED",
                threadId=thread,
                runId=frame["id"],
                outcome={"type": "success"},
            )


if __name__ == "__main__":
    main()
