"""Many clients in one process that read as fast as they can, and count.

Arguments: port, token (or `-` for the bare relay), clients, message. Prints `joined` when all are
there and waits for a line on stdin; then prints one JSON object with the frames that came, the
seconds from the first to the last, and the latencies in microseconds.
"""

import base64
import json
import re
import selectors
import socket
import sys
import time
from typing import Any

from benchmarks.relay_parts.worker import LINE_BYTES

STAMP = re.compile(rb'"t":"(\d{19})"')
# A text frame of 200 bytes has a header of four.
FRAME_BYTES = LINE_BYTES + 4


def masked(payload: bytes) -> bytes:
    """A client's text frame; a mask of zeros changes nothing."""
    size = len(payload)
    head = bytes((0x81, 0x80 | size)) if size < 126 else b"\x81\xfe" + size.to_bytes(2, "big")
    return head + b"\0\0\0\0" + payload


def connect(port: int, token: str) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    if token == "-":
        return made
    key = base64.b64encode(b"0123456789abcdef").decode()
    made.sendall(
        f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    while b"\r\n\r\n" not in made.recv(65536):
        pass
    hello: dict[str, Any] = {"type": "browser_hello", "client": "desktop", "protocol_version": 2}
    made.sendall(masked(json.dumps({**hello, "token": token}).encode()))
    seen = b""
    made.sendall(masked(b'{"type":"resume_conversation","project_dir":"/tmp","id":"bench"}'))
    while b"MESSAGES_SNAPSHOT" not in seen:
        seen += made.recv(65536)
    return made


def main() -> None:
    port, token, count, message = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    name, lines = message.split()[0], int(message.split()[1])
    sockets = [connect(port, token) for _ in range(count)]
    print("joined", flush=True)
    sys.stdin.readline()
    if token == "-":
        sockets[0].sendall(b"go")
    else:
        messages = [{"id": "m", "role": "user", "content": message}]
        frame = {"type": "run_agent_input", "input": {"messages": messages}}
        sockets[0].sendall(masked(json.dumps(frame).encode()))
    wanted = (lines // 300 * 300 if name == "flood" else lines) * FRAME_BYTES
    selector = selectors.DefaultSelector()
    left = dict.fromkeys(sockets, wanted)
    for made in sockets:
        made.setblocking(False)
        selector.register(made, selectors.EVENT_READ)
    latencies: list[float] = []
    first = last = 0.0
    while left:
        for key, _ in selector.select(60):
            made = next(s for s in left if s is key.fileobj)
            data = made.recv(65536)
            last = time.monotonic()
            first = first or last
            if name == "paced":
                now = time.monotonic_ns()
                latencies += [(now - int(stamp)) / 1000 for stamp in STAMP.findall(data)]
            left[made] -= len(data)
            # The run's start and end come on top; a closed socket has nothing more to give.
            if left[made] <= 0 or not data:
                selector.unregister(made)
                del left[made]
    frames = count * wanted // FRAME_BYTES
    print(json.dumps({"frames": frames, "seconds": last - first, "latencies": latencies}))


if __name__ == "__main__":
    main()
