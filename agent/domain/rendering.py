"""A conversation as a page for people: Markdown, or HTML that stands alone and runs nothing."""

from collections.abc import Iterable
from html import escape

import msgspec

from agent.domain.messages import Message

_WHO = {
    "user": "You",
    "assistant": "Agent",
    "reasoning": "Agent, thinking",
    "tool": "Result",
    "activity": "Note",
}
_STYLE = """\
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 50rem; padding: 0 1rem }
h2 { font-size: 1rem; margin: 1.5rem 0 .25rem }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font: inherit }
pre.code { font: .9rem/1.4 ui-monospace, monospace; border-left: 3px solid; padding-left: .75rem }
"""


class _Result(msgspec.Struct):
    success: bool = True
    output: str = ""
    error: str = ""


def markdown_page(title: str, messages: Iterable[Message]) -> str:
    """The conversation as Markdown."""
    parts = [f"# {title}"]
    for message in messages:
        parts.append(f"## {_who(message)}")
        parts += [_fenced(text) if is_code else text for text, is_code in _texts(message)]
    return "\n\n".join(parts) + "\n"


def html_page(title: str, messages: Iterable[Message]) -> str:
    """The conversation as one HTML file: nothing in it is loaded or run."""
    parts: list[str] = []
    for message in messages:
        parts.append(f"<h2>{escape(_who(message))}</h2>")
        for text, is_code in _texts(message):
            kind = ' class="code"' if is_code else ""
            parts.append(f"<pre{kind}>{escape(text)}</pre>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _who(message: Message) -> str:
    return _WHO.get(message.role, message.role.capitalize())


def _texts(message: Message) -> list[tuple[str, bool]]:
    """The pieces of a message, and which of them are to be shown as they stand."""
    if message.role == "tool":
        return [(_result(message.text), True)]
    if message.role == "activity":
        content = message.content if isinstance(message.content, dict) else {}
        return [(str(content.get("text", "")), False)]
    found = [(message.text, False)] if message.text else []
    calls = (call.function for call in message.tool_calls or ())
    return [*found, *((f"{call.name} {call.arguments}", True) for call in calls)]


def _result(text: str) -> str:
    try:
        result = msgspec.json.decode(text.encode(), type=_Result)
    except msgspec.DecodeError:
        return text
    return "\n".join(part for part in (result.error, result.output) if part) or "(nothing)"


def _fenced(text: str) -> str:
    """In a fence that the text itself can't end."""
    longest = max((len(run) for run in _runs(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _runs(text: str) -> Iterable[str]:
    run = ""
    for character in text:
        if character == "`":
            run += character
        elif run:
            yield run
            run = ""
    if run:
        yield run
