"""What a model is given of a large output: its head and its tail, and where the whole is kept.

The whole goes to the project's artifacts, where clients can open it. A disk that has no room for it
costs the whole, not the call: the note says so.
"""

import re
from dataclasses import replace

from agent.domain.messages import whole_characters
from agent.domain.ports import Archive, BadFile, ToolResult

# About 12,000 tokens: more of one call only pushes the rest of the work out of the model's window.
MOST = 48 * 1024
_HEAD = MOST * 2 // 3
_TAIL = MOST - _HEAD
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


async def fitted(
    result: ToolResult, archive: Archive | None, conversation_id: str, call_id: str
) -> ToolResult:
    """The result with an output that a model can use."""
    output, error = whole_characters(result.output), whole_characters(result.error)
    if (output, error) != (result.output, result.error):
        result = replace(result, output=output, error=error)
    if len(result.output) <= MOST:
        return result
    left_out = len(result.output) - MOST
    kept = "the rest is lost"
    if archive is not None:
        name = f"{conversation_id}-{_UNSAFE.sub('-', call_id)[-80:]}.txt"
        try:
            path = await archive.write(name, result.output.encode(), None, overwrite=True)
            kept = f"the whole is in {path}"
        except BadFile as exc:
            kept = f"the rest is lost: {exc}"
    note = f"\n[... {left_out} characters left out; {kept} ...]\n"
    return replace(result, output=result.output[:_HEAD] + note + result.output[-_TAIL:])
