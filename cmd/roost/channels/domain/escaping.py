"""Text of others inside our own Markdown, shown as the text it is. Pure.

That includes what can't be seen: a character that turns the direction of writing, or hides, would
show a person another command than the one that runs.
"""

import unicodedata

# Line ends and tabs; what joins the parts of a letter or an emoji, or keeps them apart.
_NEEDED = frozenset("\n\t\r\u200c\u200d")
_SPECIAL = frozenset("\\`*_{}[]<>()#+-.!|~&=")


def inline(text: str) -> str:
    """On one line."""
    return lines(" ".join(text.split()))


def lines(text: str) -> str:
    """With its line breaks."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in visible(text))


def code(text: str) -> str:
    """Inline code, of text on one line."""
    shown = visible(" ".join(text.split()))
    if not shown:
        return ""
    ticks = "`" * (longest_run(shown) + 1)
    gap = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{gap}{shown}{gap}{ticks}"


def block(text: str) -> str:
    """A code block, with a fence that its content can't end."""
    fence = "`" * max(3, longest_run(text) + 1)
    return f"{fence}\n{visible(text)}\n{fence}"


def visible(text: str) -> str:
    """Control and format characters by their numbers, but for those that text and emoji need."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(c):04X}⟩" if _is_hidden(c) else c for c in text)


def _is_hidden(character: str) -> bool:
    return character not in _NEEDED and unicodedata.category(character) in ("Cc", "Cf")


def longest_run(text: str) -> int:
    """Of backticks."""
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
