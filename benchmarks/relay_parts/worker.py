"""A worker that writes 200-byte lines: as fast as the pipe takes them, or paced.

Told by a message: `flood <lines>` or `paced <lines> <per second>`.
"""

import json
import sys
import time

LINE_BYTES = 200


def line_at(stamp: int) -> bytes:
    head = b'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","t":"%019d","delta":"' % stamp
    return head + b"x" * (LINE_BYTES - len(head) - 2) + b'"}'


def flood(lines: int) -> None:
    out = sys.stdout.buffer
    block = (line_at(0) + b"\n") * 300
    for _ in range(lines // 300):
        out.write(block)
    out.flush()


def paced(lines: int, per_second: int) -> None:
    out = sys.stdout.buffer
    due = time.monotonic()
    for _ in range(lines):
        due += 1 / per_second
        time.sleep(max(0.0, due - time.monotonic()))
        out.write(line_at(time.monotonic_ns()) + b"\n")
        out.flush()


def run(text: str) -> None:
    name, *numbers = text.split()
    if name == "flood":
        flood(int(numbers[0]))
    else:
        paced(int(numbers[0]), int(numbers[1]))


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in ("flood", "paced"):
        sys.stdin.readline()
        run(" ".join(sys.argv[1:]))
        return
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["type"] == "resume_conversation":
            print('{"type":"MESSAGES_SNAPSHOT","messages":[]}', flush=True)
        elif frame["type"] == "run_agent_input":
            print('{"type":"RUN_STARTED","threadId":"c","runId":"r"}', flush=True)
            run(frame["input"]["messages"][0]["content"])
            print('{"type":"RUN_FINISHED","threadId":"c","runId":"r"}', flush=True)


if __name__ == "__main__":
    main()
