"""Text with styles, as messaging services have it: no blocks, only styled stretches of text. Pure.

A service has a limit on one message. `split` cuts a text into pieces below it, at the best place
there is, and the pieces joined are the whole text again: a style that is cut goes on in the next
piece. Lengths are counted in UTF-16 code units, the way the services do.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Mark = Literal["bold", "italic", "struck", "code", "block", "quote", "link"]


@dataclass(frozen=True, slots=True)
class Style:
    """One style, and what it needs: a link its address, a code block its language."""

    mark: Mark
    value: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text in the same styles, the outermost first."""

    text: str
    styles: tuple[Style, ...] = ()


# Where a cut hurts least, best first: between blocks, lines, sentences, words.
_CUTS = tuple(re.compile(pattern) for pattern in (r"\n\n+", r"\n", r"[.!?]\s+", r"\s"))
# A piece that is much shorter than it could be is worse than a cut at a worse place.
_SHORTEST = 0.5


def units(text: str) -> int:
    """The length as services count it: a character outside the basic plane is two."""
    return len(text) + sum(character > "\uffff" for character in text)


def plain(spans: Sequence[Span]) -> str:
    """The text alone."""
    return "".join(span.text for span in spans)


def split(spans: Sequence[Span], longest: int, most_spans: int = 90) -> list[list[Span]]:
    """Pieces of at most `longest` units (two at least) and so many styled spans, in order."""
    pieces: list[list[Span]] = []
    rest = [span for span in spans if span.text]
    while rest:
        piece, rest = _cut(rest, _fitting(rest, longest, most_spans))
        pieces.append(piece)
    return pieces


def _fitting(spans: Sequence[Span], longest: int, most_spans: int) -> int:
    """How many characters the next piece has: all, or up to the best place for a cut."""
    text = plain(spans[: most_spans + 1])
    end = _characters(text, longest)
    end = min(end, len(plain(spans[:most_spans])))
    if end == len(plain(spans)):
        return end
    for cut in _CUTS:
        places = [found.end() for found in cut.finditer(text, 0, end)]
        if places and places[-1] >= end * _SHORTEST:
            return places[-1]
    return end


def _characters(text: str, longest: int) -> int:
    """How many of the first characters have at most so many units."""
    if units(text) <= longest:
        return len(text)
    end = min(len(text), longest)
    while units(text[:end]) > longest:
        end -= max(1, (units(text[:end]) - longest) // 2)
    return end


def _cut(spans: Sequence[Span], end: int) -> tuple[list[Span], list[Span]]:
    before: list[Span] = []
    for index, span in enumerate(spans):
        if len(span.text) > end:
            if end:
                before.append(Span(span.text[:end], span.styles))
            return before, [Span(span.text[end:], span.styles), *spans[index + 1 :]]
        before.append(span)
        end -= len(span.text)
    return before, []


def joined(spans: Iterator[Span]) -> list[Span]:
    """The same with neighbours of the same styles made one, and without empty ones."""
    found: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if found and found[-1].styles == span.styles:
            found[-1] = Span(found[-1].text + span.text, span.styles)
        else:
            found.append(span)
    return found
