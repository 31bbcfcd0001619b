"""The messages of a conversation, in the shape AG-UI 1.0 gives them on the wire.

One shape serves the history on disk, the snapshot and the model's input, so that nothing is
translated twice. Absent means absent: an optional field without a value is left out.
"""

from typing import Literal

import msgspec

Role = Literal["user", "assistant", "tool", "reasoning", "activity", "system", "developer"]

# Where our own facts about a message live. AG-UI objects are closed; `metadata` is open.
ATTACHMENTS = "roost.attachments"
INTERRUPTED = "roost.interrupted"
HIDDEN = "roost.hidden"
UNCERTAIN = "roost.uncertain"
JOB = "roost.job"
# An activity: what the worker itself has to say to people. No model reads it.
NOTICE = "roost.notice"
SUBAGENT = "roost.subagent"


class FunctionCall(msgspec.Struct, frozen=True):
    """What a model wants called. The arguments are JSON text, as the model wrote it."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    """One call inside an assistant message."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


class Message(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One message. Frozen: the transcript replaces it when it grows."""

    id: str
    role: Role
    content: str | list[dict[str, object]] | dict[str, object] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    error: str | None = None
    activity_type: str | None = None
    metadata: dict[str, object] | None = None

    @property
    def text(self) -> str:
        """The content as text; what is not text is left out."""
        if isinstance(self.content, str):
            return self.content
        if isinstance(self.content, list):
            return "\n".join(str(part["text"]) for part in self.content if "text" in part)
        return ""

    def marked(self, key: str, value: object) -> "Message":
        """The same message with one more fact in its metadata."""
        return msgspec.structs.replace(self, metadata={**(self.metadata or {}), key: value})

    @property
    def is_of_a_person(self) -> bool:
        """Did a person write it? What jobs and subagents came to are messages too, but marked."""
        return self.role == "user" and set(self.metadata or ()) <= {ATTACHMENTS}

    def is_marked(self, key: str) -> bool:
        return bool((self.metadata or {}).get(key))


class Attachment(msgspec.Struct, frozen=True):
    """A file that came with a message, where it was saved."""

    name: str
    mime_type: str
    path: str
    is_image: bool


def attachments_of(message: Message) -> list[Attachment]:
    """What is noted in the message's metadata; notes that make no sense are left out."""
    try:
        return msgspec.convert((message.metadata or {}).get(ATTACHMENTS, []), list[Attachment])
    except msgspec.ValidationError:
        return []


def result_text(*, success: bool, output: str = "", error: str = "") -> str:
    """What a TOOL_CALL_RESULT carries: JSON text that clients read `success` and `error` from."""
    return msgspec.json.encode({"success": success, "output": output, "error": error}).decode()


def whole_characters(text: str) -> str:
    """The text with U+FFFD for half characters, which no line and no file of ours could hold.

    They come in names of files that are not UTF-8, and from servers that cut an emoji in two.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
