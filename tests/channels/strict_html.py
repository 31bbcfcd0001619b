"""Telegram's HTML, read as strictly as Telegram reads it, and written for the tests only.

It shares nothing with what writes it: a mistake in both would go unseen.
"""

import re

_PLAIN_TAGS = frozenset(
    [
        "b",
        "strong",
        "i",
        "em",
        "u",
        "ins",
        "s",
        "strike",
        "del",
        "code",
        "pre",
        "blockquote",
        "tg-spoiler",
    ]
)
_TOKEN = re.compile(r"<(/?)([a-z-]+)((?:\s+[a-z]+=\"[^\"<>]*\")*)>|&(#?[a-zA-Z0-9]+);|([^<>&]+)")
_ATTRIBUTE = re.compile(r'\s+([a-z]+)="([^"<>]*)"')
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
LONGEST = 4096


class BadHtml(ValueError):
    """What Telegram would say."""


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def read(html: str) -> tuple[str, list[tuple[str, str]]]:
    """The text, and (tag, text inside it) for each entity. Raises BadHtml."""
    text: list[str] = []
    open_tags: list[tuple[str, int]] = []
    entities: list[tuple[str, str]] = []
    place = 0
    while place < len(html):
        found = _TOKEN.match(html, place)
        if found is None:
            raise BadHtml(f"can't parse entities: unexpected character at byte {place}")
        place = found.end()
        closes, tag, attributes, entity, plain = found.groups()
        if plain is not None:
            text.append(plain)
        elif entity is not None:
            text.append(_character(entity))
        elif closes:
            if not open_tags or open_tags[-1][0] != tag or attributes:
                raise BadHtml(f"can't parse entities: unexpected end tag {tag}")
            _, start = open_tags.pop()
            entities.append((tag, "".join(text)[start:]))
        else:
            _check_tag(tag, attributes, [name for name, _ in open_tags])
            open_tags.append((tag, len("".join(text))))
    if open_tags:
        raise BadHtml(f"can't parse entities: can't find end tag of {open_tags[-1][0]}")
    return "".join(text), entities


def _character(entity: str) -> str:
    if entity in _NAMED:
        return _NAMED[entity]
    if entity.startswith("#x"):
        return chr(int(entity[2:], 16))
    if entity.startswith("#") and entity[1:].isdecimal():
        return chr(int(entity[1:]))
    raise BadHtml(f"can't parse entities: unknown entity {entity}")


def _check_tag(tag: str, attributes: str, above: list[str]) -> None:
    given = dict(_ATTRIBUTE.findall(attributes))
    if tag == "a":
        if set(given) != {"href"} or "a" in above:
            raise BadHtml("can't parse entities: a link without its address, or inside another")
    elif tag == "code" and above[-1:] == ["pre"]:
        if not set(given) <= {"class"}:
            raise BadHtml("can't parse entities: bad attribute")
        return
    elif tag not in _PLAIN_TAGS or given:
        raise BadHtml(f'can\'t parse entities: unsupported start tag "{tag}"')
    if {"pre", "code"} & set(above):
        raise BadHtml("can't parse entities: code holds no other entity")
    if tag in ("pre", "code") and set(above) - {"blockquote"}:
        raise BadHtml("can't parse entities: code is inside another entity")
    if tag in above:
        raise BadHtml(f"can't parse entities: {tag} inside itself")
