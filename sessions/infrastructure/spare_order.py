"""What a warm spare is told once, as the first bytes of its stdin: whose worker it is to be.

A length in decimal and a newline, that many bytes of JSON, and a newline: so the spare reads not a
byte of what the worker is told after it. ASCII, since names and variables need not be text.
"""

import json
import os
from dataclasses import asdict, dataclass

READY = b"R\n"
"""What a spare says once it is warm."""


@dataclass(frozen=True, slots=True)
class Order:
    project_dir: str
    arguments: tuple[str, ...]
    environ: dict[str, str]


def told_order(order: Order) -> bytes:
    """All of it but the last newline, as with any line."""
    content = json.dumps(asdict(order)).encode()
    return b"%d\n%b" % (len(content), content)


def heard_order(fd: int) -> Order | None:
    """Wait for it, with its newline. None: there will be none."""
    length = b""
    while not length.endswith(b"\n"):
        byte = os.read(fd, 1)
        if not byte:
            return None
        length += byte
    left = int(length) + 1
    parts: list[bytes] = []
    while left:
        part = os.read(fd, min(left, 2**20))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    members = json.loads(b"".join(parts))
    return Order(members["project_dir"], tuple(members["arguments"]), members["environ"])
