"""A worker for the HTTP benchmark: one message of many pieces, each with the time it was written.

Told by a message: `<lines> <per second>`; 0 per second is as fast as the pipe takes them. Who opens
the thread meanwhile is answered at once, as every worker has to.
"""

import json
import sys
import threading
import time

_whole_lines = threading.Lock()


def run(run_id: str, lines: int, per_second: int) -> None:
    out = sys.stdout
    out.write(f'{{"type":"RUN_STARTED","threadId":"t","runId":"{run_id}"}}\n')
    out.write(f'{{"type":"TEXT_MESSAGE_START","messageId":"m-{run_id}","role":"assistant"}}\n')
    due = time.monotonic()
    filler = "x" * 110
    for _ in range(lines):
        if per_second:
            due += 1 / per_second
            time.sleep(max(0.0, due - time.monotonic()))
        with _whole_lines:
            stamp = time.monotonic_ns()
            out.write(
                f'{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m-{run_id}",'
                f'"delta":"@{stamp:019d}{filler}"}}\n'
            )
            if per_second:
                out.flush()
    out.write(f'{{"type":"TEXT_MESSAGE_END","messageId":"m-{run_id}"}}\n')
    out.write(f'{{"type":"RUN_FINISHED","threadId":"t","runId":"{run_id}"}}\n')
    out.flush()


def main() -> None:
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["type"] == "resume_conversation":
            with _whole_lines:
                sys.stdout.write('{"type":"MESSAGES_SNAPSHOT","messages":[]}\n')
                sys.stdout.flush()
        elif frame["type"] == "run_agent_input":
            given = frame["input"]
            lines, per_second = given["messages"][0]["content"].split()
            job = (given["runId"], int(lines), int(per_second))
            threading.Thread(target=run, args=job, daemon=True).start()


if __name__ == "__main__":
    main()
