"""What names a thread, what it is launched with, and where a client is in its events."""

import posixpath
import re
from dataclasses import dataclass
from typing import NewType

ConversationId = NewType("ConversationId", str)
Generation = NewType("Generation", str)

# Literal, always: letters, digits, dot, underscore, hyphen; no leading dot; at most 255 characters,
# which is the longest file name the usual file systems take (design, section 13, item 11).
_CONVERSATION_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
CONVERSATION_ID_RULE = (
    "letters, digits, '.', '_' and '-', not beginning with '.', at most 255 characters"
)


class BadKey(ValueError):
    """The frame does not name a thread. The message says what was wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """A project dir (absolute, lexically cleaned) and a conversation id."""

    project_dir: str
    conversation_id: ConversationId

    @classmethod
    def parse(cls, project_dir: str | None, conversation_id: str | None) -> "ThreadKey":
        """Check both parts. Raises BadKey."""
        if project_dir is None:
            raise BadKey("project_dir is missing: give it, as an absolute path")
        if not project_dir.startswith("/") or "\0" in project_dir:
            raise BadKey(f"project_dir must be an absolute path, not {_shown(project_dir)}")
        if not conversation_id:
            raise BadKey("a conversation id is missing: give it as 'id'")
        if not _CONVERSATION_ID.fullmatch(conversation_id):
            raise BadKey(
                f"the conversation id {_shown(conversation_id)} is not one:"
                f" {CONVERSATION_ID_RULE} are allowed"
            )
        return cls(clean_dir(project_dir), ConversationId(conversation_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subagent:
    """The option of a thread that a parent worker opens."""

    parent: str
    depth: int = 0
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOptions:
    """What a worker is launched with. Absent, empty and zero are the same: not given."""

    model: str | None = None
    mode: str | None = None
    system_prompt: str | None = None
    custom_instructions: str | None = None
    sandbox_directories: tuple[str, ...] = ()
    max_turns: int | None = None
    subagent: Subagent | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a thread's events. Has no order: sequences compare only inside one generation."""

    generation: Generation
    sequence: int


def clean_dir(path: str) -> str:
    """Clean an absolute path lexically: ``/other/../proj`` and ``/proj`` are one project."""
    cleaned = posixpath.normpath(path)
    # POSIX keeps a leading double slash apart; for us it is one root.
    return "/" + cleaned.lstrip("/")


def _shown(value: str) -> str:
    if not value:
        return "an empty value"
    return repr(value if len(value) <= 80 else value[:77] + "...")
