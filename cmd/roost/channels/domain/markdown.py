"""What an agent writes (Markdown) as styled text. Pure.

Blocks become what a chat can show: headings bold, lists with bullets, tables in a block of their
own with aligned columns, or as records when they are too wide for a phone. Raw HTML is shown as
the text it is. Links that lead to no web address keep their address as text.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

from roost.channels.domain.spans import Span, Style, joined

_SCHEMES = ("http://", "https://", "tg://", "mailto:")
# What a phone held upright shows of a monospaced line.
_WIDEST_TABLE = 44
_RULE = "—" * 10

_parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@dataclass(frozen=True, slots=True)
class Rendered:
    """Styled text, and the files and images that it refers to by a path."""

    spans: tuple[Span, ...]
    references: tuple[str, ...] = ()


def render(text: str) -> Rendered:
    """Never raises: every text is some Markdown."""
    writer = _Writer()
    writer.write(_parser.parse(_encodable(text)))
    return Rendered(tuple(joined(iter(writer.spans))), tuple(dict.fromkeys(writer.references)))


def _encodable(text: str) -> str:
    """Without halves of surrogate pairs, which no service takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(slots=True)
class _List:
    number: int | None
    """Of the next item; None has bullets."""


@dataclass(slots=True)
class _Writer:
    """Walks the tokens once. `styles` holds what is open around the present place."""

    spans: list[Span] = field(default_factory=list[Span])
    references: list[str] = field(default_factory=list[str])
    _styles: list[Style] = field(default_factory=list[Style])
    _lists: list[_List] = field(default_factory=list[_List])
    _gap: str = ""
    """What stands between the last block and the next, once there is a next."""
    _link_ends: list[str] = field(default_factory=list[str])

    def write(self, tokens: Sequence[Token]) -> None:
        index = 0
        while index < len(tokens):
            if tokens[index].type == "table_open":
                end = _closing(tokens, index, "table_close")
                self._table(tokens[index:end])
                index = end
            else:
                self._token(tokens[index])
            index += 1

    def _token(self, token: Token) -> None:
        match token.type:
            case "inline":
                self._inline(token.children or [])
            case "heading_open":
                self._styles.append(Style("bold"))
            case "heading_close":
                self._styles.pop()
                self._end_block()
            case "paragraph_close":
                self._end_block(tight=token.hidden)
            case "blockquote_open":
                self._styles.append(Style("quote"))
            case "blockquote_close":
                self._styles.pop()
            case "bullet_list_open":
                self._lists.append(_List(None))
            case "ordered_list_open":
                self._lists.append(_List(int(token.attrGet("start") or 1)))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._gap = "\n" if self._lists else "\n\n"
            case "list_item_open":
                self._item()
            case "list_item_close":
                self._gap = self._gap or "\n"
            case "fence" | "code_block":
                self._code(token.content, token.info.split()[0] if token.info.split() else "")
            case "hr":
                self._text(_RULE)
                self._end_block()
            case _:
                pass

    def _text(self, text: str, *styles: Style) -> None:
        if not text:
            return
        if self.spans and self._gap:
            # Inside a quote the gap is part of it, so that the quote stays one.
            self.spans.append(Span(self._gap, self._quoted() if self.spans[-1].styles else ()))
        self._gap = ""
        self.spans.append(Span(text, _nested((*self._styles, *styles))))

    def _quoted(self) -> tuple[Style, ...]:
        last = self.spans[-1].styles
        return tuple(s for s in last if s.mark == "quote" and s in self._styles)

    def _end_block(self, *, tight: bool = False) -> None:
        self._gap = "\n" if tight or self._lists else "\n\n"

    def _item(self) -> None:
        here = self._lists[-1]
        mark = "• " if here.number is None else f"{here.number}. "
        if here.number is not None:
            here.number += 1
        self._text("  " * (len(self._lists) - 1) + mark)

    def _code(self, content: str, language: str) -> None:
        self._text(content.rstrip("\n"), Style("block", language))
        self._end_block()

    # Inside a paragraph

    def _inline(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            match token.type:
                case "text" | "text_special":
                    self._text(token.content)
                case "softbreak" | "hardbreak":
                    self._text("\n")
                case "code_inline":
                    self._text(token.content, Style("code"))
                case "strong_open":
                    self._styles.append(Style("bold"))
                case "em_open":
                    self._styles.append(Style("italic"))
                case "s_open":
                    self._styles.append(Style("struck"))
                case "strong_close" | "em_close" | "s_close":
                    self._styles.pop()
                case "link_open":
                    self._open_link(str(token.attrGet("href") or ""))
                case "link_close":
                    self._close_link()
                case "image":
                    self._image(token)
                case _:
                    self._text(token.content)

    def _open_link(self, href: str) -> None:
        if href.startswith(_SCHEMES) or not href:
            self._styles.append(Style("link", href))
            self._link_ends.append("")
        else:
            self.references.append(href)
            self._link_ends.append(href)

    def _close_link(self) -> None:
        href = self._link_ends.pop()
        if not href:
            self._styles.pop()
        elif not self.spans or not self.spans[-1].text.endswith(href):
            self._text(f" ({href})")

    def _image(self, token: Token) -> None:
        source = str(token.attrGet("src") or "")
        words = token.content or source.rsplit("/", 1)[-1] or "image"
        if source.startswith(_SCHEMES):
            self._text(words, Style("link", source))
        else:
            self.references.append(source)
            self._text(f"[{words}]", Style("italic"))

    # Tables

    def _table(self, tokens: Sequence[Token]) -> None:
        rows: list[list[str]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(_cell_text(token.children or []))
        widths = [max(_width(row[n]) for row in rows if n < len(row)) for n in range(len(rows[0]))]
        if sum(widths) + 2 * (len(widths) - 1) <= _WIDEST_TABLE:
            self._text(_aligned(rows, widths), Style("block"))
        else:
            self._text(_records(rows))
        self._end_block()


def _nested(styles: tuple[Style, ...]) -> tuple[Style, ...]:
    """As services nest them: no style twice, and code holds and wears nothing but a quote."""
    code = next((style for style in styles if style.mark in ("code", "block")), None)
    kept: dict[str, Style] = {}
    for style in styles:
        if style == Style("link"):
            continue  # a link to nowhere is text
        if code is None or style is code or style.mark == "quote":
            kept.setdefault(style.mark, style)
    return tuple(sorted(kept.values(), key=lambda style: style.mark != "quote"))


def _closing(tokens: Sequence[Token], start: int, kind: str) -> int:
    return next(n for n in range(start, len(tokens)) if tokens[n].type == kind)


def _cell_text(tokens: Sequence[Token]) -> str:
    return "".join(_words(tokens)).strip()


def _words(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        yield " " if token.type.endswith("break") else token.content


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    lines = ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _records(rows: Sequence[Sequence[str]]) -> str:
    """A line for each value, named by its column: what a phone can show of a wide table."""
    names, *values = rows
    blocks = [
        "\n".join(f"{name}: {value}" for name, value in zip(names, row, strict=False) if value)
        for row in values
    ]
    return "\n\n".join(block for block in blocks if block) or " · ".join(names)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """How many columns a text takes."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
