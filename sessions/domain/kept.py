"""What outlives a daemon with a worker: the registry's own note, and what the keeper followed.

A keeper does not know what is in the note; the registry does not know who kept it.
"""

import msgspec

from sessions.domain.keys import Generation, Subagent, ThreadOptions


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the registry leaves with a worker, for the daemon that looks after it next."""

    generation: str
    token: str
    """The worker's own, by which clients from inside it are known."""
    model: str | None = None
    mode: str | None = None
    system_prompt: str | None = None
    custom_instructions: str | None = None
    sandbox_directories: tuple[str, ...] = ()
    max_turns: int | None = None
    parent: str | None = None
    depth: int = 0
    tools: tuple[str, ...] = ()

    @classmethod
    def of(cls, generation: Generation, token: str, options: ThreadOptions) -> "Note":
        subagent = options.subagent
        return cls(
            generation=generation,
            token=token,
            model=options.model,
            mode=options.mode,
            system_prompt=options.system_prompt,
            custom_instructions=options.custom_instructions,
            sandbox_directories=options.sandbox_directories,
            max_turns=options.max_turns,
            parent=subagent.parent if subagent else None,
            depth=subagent.depth if subagent else 0,
            tools=subagent.tools if subagent else (),
        )

    def options(self) -> ThreadOptions:
        """What the thread was launched with, for its next launch."""
        subagent = None
        if self.parent is not None:
            subagent = Subagent(parent=self.parent, depth=self.depth, tools=self.tools)
        return ThreadOptions(
            model=self.model,
            mode=self.mode,
            system_prompt=self.system_prompt,
            custom_instructions=self.custom_instructions,
            sandbox_directories=self.sandbox_directories,
            max_turns=self.max_turns,
            subagent=subagent,
        )


class BadNote(ValueError):
    """The note is not one that this version wrote."""


_note = msgspec.msgpack.Decoder(Note)


def encode_note(note: Note) -> bytes:
    return msgspec.msgpack.encode(note)


def decode_note(content: bytes) -> Note:
    """Raises BadNote."""
    try:
        return _note.decode(content)
    except msgspec.MsgspecError as exc:
        raise BadNote(str(exc)) from exc


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Where a worker was found: all that its lines, and the lines to it, have left."""

    worker_pid: int
    note: bytes
    sequence: int
    """How many lines the worker has written."""
    has_announced: bool
    """It has written its ready line, or writes none."""
    retold: list[bytes]
    lost: list[str | None]
    running_jobs: int
    is_answering: bool
    ring: list[tuple[int, bytes]]
    """The last events that went, or would have gone, to the whole thread."""
    ring_begins_after: int
    """The number of the last line that is not kept any more."""
    openings: int
    """How many snapshots are on their way that somebody asked for."""
    replies: list[str]
    """What else was asked for and not answered yet."""
    approvals: list[str]
    """The tool requests that wait for a person, by tool call id."""
    browsing: list[str]
    """The browser commands whose result the worker waits for, by id."""
    idle_since: float
    """Since when nobody needs the worker but for what is open in it, on the monotonic clock."""
    is_stopping: bool
    """It was asked to end already."""
