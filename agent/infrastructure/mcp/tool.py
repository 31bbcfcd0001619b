"""A tool of an MCP server, as a tool like any other."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from agent.domain.allow import Subject
from agent.domain.ports import BadArguments, Tell, ToolResult, ToolSpec, silent

# What providers take for the name of a tool.
_LONGEST_NAME = 64
# What a result may have in memory; what a model is shown of it is cut where all results are.
MOST_TEXT = 1024 * 1024

Ask = Callable[[str, Mapping[str, object]], Awaitable[ToolResult]]


def public_name(server: str, tool: str) -> str:
    """The name that a model calls, `mcp__server__tool`; the same in every worker."""
    name = "mcp__" + re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{tool}")
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - len(digest) - 1]}_{digest}"


@dataclass(frozen=True, slots=True)
class McpTool:
    """The tool. `ask` sends a call to the server, which may still be starting."""

    spec: ToolSpec
    ask: Ask

    def prepare(self, arguments: bytes) -> "_Call":
        try:
            found = msgspec.json.decode(arguments, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise BadArguments(f"the arguments must be a JSON object: {exc}.") from exc
        return _Call(self, found)


@dataclass(frozen=True, slots=True)
class _Call:
    tool: McpTool
    arguments: dict[str, object]

    @property
    def summary(self) -> str:
        return msgspec.json.encode(self.arguments).decode()

    def subject(self) -> Subject | None:
        return Subject("text", self.summary)

    async def run(self, tell: Tell = silent) -> ToolResult:
        return await self.tool.ask(self.tool.spec.name, self.arguments)


def output_of(value: object) -> str:
    """What a call gave, as text: parts one below the other; what is not text is named."""
    parts: list[object] = value if isinstance(value, list) else [value]  # pyright: ignore
    text = "\n".join(_part(part) for part in parts)
    return text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "\n[... the rest was left out]"


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    data, media_type = getattr(part, "data", None), getattr(part, "media_type", None)
    if isinstance(data, bytes) and media_type is not None:
        return f"[{media_type}, {len(data)} bytes, not shown]"
    return msgspec.json.encode(part, enc_hook=str).decode()
