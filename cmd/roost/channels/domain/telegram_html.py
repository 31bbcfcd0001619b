"""Styled text as Telegram's HTML, in messages below its limits. Pure.

Telegram takes a small part of HTML, strictly: only its own tags, each closed in order, and nothing
but four named entities. Text is escaped after it is cut, so that no entity and no tag is ever cut.
"""

from collections.abc import Sequence
from html import escape

from roost.channels.domain.messages import Chunk
from roost.channels.domain.spans import Span, Style, plain, split

# Telegram's own limit is 4,096 after its parsing. What is left is room for a heading or a note.
LONGEST_MESSAGE = 3500
_TAGS = {"bold": "b", "italic": "i", "struck": "s", "code": "code", "quote": "blockquote"}


def chunks(spans: Sequence[Span], longest: int = LONGEST_MESSAGE) -> list[Chunk]:
    """The messages that a text takes. A piece with nothing to see is none."""
    pieces = split(spans, longest)
    return [Chunk(plain(piece), to_html(piece)) for piece in pieces if plain(piece).strip() != ""]


def to_html(spans: Sequence[Span]) -> str:
    """One piece, with every tag closed in it."""
    out: list[str] = []
    open_styles: tuple[Style, ...] = ()
    for span in spans:
        kept = _common(open_styles, span.styles)
        out += [_end(style) for style in reversed(open_styles[kept:])]
        out += [_start(style) for style in span.styles[kept:]]
        out.append(escape(span.text))
        open_styles = span.styles
    out += [_end(style) for style in reversed(open_styles)]
    return "".join(out)


def _common(one: tuple[Style, ...], other: tuple[Style, ...]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _start(style: Style) -> str:
    match style.mark:
        case "link":
            return f'<a href="{escape(style.value)}">'
        case "block" if style.value:
            return f'<pre><code class="language-{escape(style.value)}">'
        case "block":
            return "<pre>"
        case _:
            return f"<{_TAGS[style.mark]}>"


def _end(style: Style) -> str:
    match style.mark:
        case "link":
            return "</a>"
        case "block":
            return "</code></pre>" if style.value else "</pre>"
        case _:
            return f"</{_TAGS[style.mark]}>"
