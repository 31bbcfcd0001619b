"""The stream for clients that declare no protocol version: they refuse what is new in 1.0. Pure.

A downgrade may leave out and reshape; it invents nothing, and changes no id and no order. What it
loses is counted, so that the log can say so. There is no old form for a cancelled run: it ends
without an outcome, and `metadata` says that it was cancelled.
"""

from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw

from agui.stream.events import (
    AnyEvent,
    AnyMessage,
    Cancelled,
    Content,
    ContentPart,
    FileSource,
    MessagesSnapshot,
    RunFinished,
    RunStarted,
    Success,
    TextPart,
    ToolCallResult,
    ToolMessage,
    UserMessage,
    encode,
    read_messages,
    read_parts,
)

CANCELLED = "roost.cancelled"
_TRUE = Raw(b"true")


def is_old(declared: str | None) -> bool:
    """Whether a client that declares this version speaks something older than 1.0."""
    major = (declared or "0").partition(".")[0]
    return not major.isdecimal() or not major.lstrip("0")


@dataclass(slots=True)
class Downgrade:
    """For one stream to one client."""

    lossy: int = 0
    """How often something was lost."""

    def __call__(self, event: AnyEvent) -> AnyEvent:
        match event:
            case RunStarted():
                return self._started(event)
            case RunFinished():
                return self._finished(event)
            case ToolCallResult():
                content = self._as_text(event.content)
                return msgspec.structs.replace(event, content=content)
            case MessagesSnapshot():
                return msgspec.structs.replace(event, messages=self._messages(event.messages))
            case _:
                return event

    def _started(self, event: RunStarted) -> RunStarted:
        echo = event.input
        if echo is UNSET:
            return event
        echo = msgspec.structs.replace(
            echo,
            tools=[] if echo.tools is UNSET else echo.tools,
            context=[] if echo.context is UNSET else echo.context,
            messages=self._messages(echo.messages),
        )
        return msgspec.structs.replace(event, input=echo)

    def _finished(self, event: RunFinished) -> RunFinished:
        match event.outcome:
            case Success():
                return msgspec.structs.replace(event, outcome=Success())
            case Cancelled():
                self.lossy += 1
                known = {} if event.metadata is UNSET else event.metadata
                metadata = {**known, CANCELLED: _TRUE}
                return msgspec.structs.replace(event, outcome=UNSET, metadata=metadata)
            case _:
                return event

    def _messages(self, messages: list[Raw]) -> list[Raw]:
        return [Raw(encode(self._message(message))) for message in read_messages(messages)]

    def _message(self, message: AnyMessage) -> AnyMessage:
        match message:
            case ToolMessage():
                return msgspec.structs.replace(message, content=self._as_text(message.content))
            case UserMessage(content=list() as parts):
                kept = [part for part in read_parts(parts) if not _is_file(part)]
                self.lossy += len(parts) - len(kept)
                return msgspec.structs.replace(message, content=[Raw(encode(p)) for p in kept])
            case _:
                return message

    def _as_text(self, content: Content) -> Content:
        if isinstance(content, str):
            return content
        parts = read_parts(content)
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        self.lossy += len(parts) - len(texts)
        return "\n".join(texts)


def _is_file(part: ContentPart) -> bool:
    return not isinstance(part, TextPart) and isinstance(part.source, FileSource)
