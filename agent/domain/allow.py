"""Which calls the user has allowed once and for all: the rules of `agent.allow`.

`Bash(git status*)` covers commands of which every word is plain: a command with an operator, a
redirection, an expansion or anything else that a shell reads as more than a word is covered by no
rule. `Edit(docs/**)` covers files by where they really are. It decides by text alone; it runs and
opens nothing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

_RULE = re.compile(r"([A-Za-z][A-Za-z0-9_-]*\*?)(?:\((.+)\))?", re.DOTALL)
_SERVERS = "mcp__"

# Unquoted, these stand for themselves in every shell. No `~`, globs, braces or `#`. All repeats are
# possessive: a command is written by a model, and may be made to keep a pattern busy.
_PLAIN = r"[A-Za-z0-9_@%+=:,./-]++"
_QUOTED = r"""'[^'\x00-\x1f]*'|"[^"$`\\!\x00-\x1f]*\""""
_PIECE = re.compile(rf"{_PLAIN}|{_QUOTED}")
_WORD = re.compile(rf"(?:{_PIECE.pattern})++")
_COMMAND = re.compile(rf"[ \t]*+{_WORD.pattern}(?:[ \t]++{_WORD.pattern})*+[ \t]*+")


class BadRule(ValueError):
    """The text is no rule."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a call is about, for a rule's pattern."""

    kind: Literal["command", "path", "text"]
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the list. Without a pattern it covers every call of its tool."""

    tool: str
    pattern: str | None = None

    @classmethod
    def of(cls, text: str) -> "Rule":
        """Raises BadRule."""
        found = _RULE.fullmatch(text.strip())
        # A star for all tools would be the mode `auto` under another name.
        if found is None or (found[1].endswith("*") and not found[1].startswith(_SERVERS)):
            raise BadRule(text)
        return cls(found[1], found[2])

    def covers(self, tool: str, subject: Subject) -> bool:
        if tool != self.tool and not (self.tool.endswith("*") and fnmatchcase(tool, self.tool)):
            return False
        if self.pattern is None:
            return True
        match subject.kind:
            case "command":
                return _covers_command(self.pattern, subject.text)
            case "path":
                return _path_pattern(self.pattern).fullmatch(subject.text) is not None
            case "text":
                return fnmatchcase(subject.text, self.pattern)


@dataclass(frozen=True, slots=True)
class AllowList:
    """All rules. Any one is enough."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> "AllowList":
        """Raises BadRule."""
        return cls(tuple(Rule.of(text) for text in texts))

    def has_rules_for(self, tool: str) -> bool:
        return any(fnmatchcase(tool, rule.tool) for rule in self.rules)

    def covers(self, tool: str, subject: Subject | None) -> bool:
        """Nothing covers a call without a subject: it is one that is always asked for."""
        return subject is not None and any(rule.covers(tool, subject) for rule in self.rules)


def plain_words(command: str) -> list[str] | None:
    """The words of a command that is nothing but words, as a shell reads them; else None."""
    if not _COMMAND.fullmatch(command):
        return None
    words = [_unquoted(word) for word in _WORD.findall(command)]
    # `NAME=value command` changes what the command is.
    return None if "=" in words[0] else words


def _unquoted(word: str) -> str:
    pieces: list[str] = _PIECE.findall(word)
    return "".join(piece[1:-1] if piece[0] in "'\"" else piece for piece in pieces)


def _covers_command(pattern: str, command: str) -> bool:
    """Word by word; a pattern that ends with a star takes any further words."""
    words, wanted = plain_words(command), pattern.split()
    if words is None or not wanted or len(words) < len(wanted):
        return False
    if len(words) > len(wanted) and not pattern.endswith("*"):
        return False
    return all(fnmatchcase(word, want) for word, want in zip(words, wanted, strict=False))


def _path_pattern(pattern: str) -> re.Pattern[str]:
    """`*` is inside one folder, `**` is at any depth."""
    parts = re.split(r"(\*\*/?|\*|\?)", pattern)
    kinds = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    return re.compile("".join(kinds.get(part) or re.escape(part) for part in parts), re.DOTALL)
