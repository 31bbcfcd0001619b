"""A person's own shell command, `!command`, as the call that a model would make of it.

So it takes the same way as any call: told to everybody, asked for, recorded, and read by the model
when it is its turn again.
"""

from collections.abc import AsyncIterator

import anyio.lowlevel
import msgspec

from agent.domain.ports import ArgumentsPiece, CallBegan, Piece

_TOOL = "Bash"


async def direct_call(call_id: str, command: str) -> AsyncIterator[Piece]:
    """The pieces of a response that consists of this one call."""
    await anyio.lowlevel.checkpoint()
    yield CallBegan(0, call_id, _TOOL)
    yield ArgumentsPiece(0, msgspec.json.encode({"command": command}).decode())
