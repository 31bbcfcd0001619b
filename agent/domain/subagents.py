"""Subagents in words: what a thread below this one is opened with, and what is heard of it.

`OpenChild` is the port that the agent opens them through. Its adapters say the same news, whether
the child is a thread of a daemon or a process of our own; who makes state and notes of the news is
`agent.domain.children`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import msgspec

from agent.domain.lineage import ChildThread, Lineage
from agent.domain.ports import AgentError

TURN = "subagent_turn"


class ChildLost(AgentError):
    """A subagent could not be opened, or can't be reached any more. The message says why."""


class Ask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision that a child waits for, in the words it asks with."""

    id: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """What a child tells of a turn that is over."""

    text: str = ""
    success: bool = True
    error: str = ""
    done: bool = True
    """Nothing waits for another turn."""
    tools_succeeded: int = 0
    tools_failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Began:
    """A turn goes on."""


@dataclass(frozen=True, slots=True)
class Did:
    """What the child does now, in a few words."""

    activity: str


@dataclass(frozen=True, slots=True)
class Counted:
    """Its tokens, over its whole conversation, and its jobs in the background."""

    input_tokens: int
    output_tokens: int
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class Nested:
    """Its own subagents, as its own state shows them."""

    rows: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Asked:
    """It waits for a person."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Turned:
    """A turn is over."""

    report: TurnReport


@dataclass(frozen=True, slots=True)
class Broke:
    """A turn, or a message to it, came to nothing: its worker ended, or never took it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Settled:
    """Found idle when it was opened again. What it said last is the result of what it was asked."""

    text: str


News = Began | Did | Counted | Nested | Asked | Turned | Broke | Settled


class ChildLink(Protocol):
    """A child that is open. Iterate for its news; they end when it is gone."""

    async def send(self, message_id: str, text: str) -> None:
        """Give it something to do, after what it does now. Raises ChildLost."""
        ...

    async def interrupt(self) -> None:
        """End its turn, if one goes on. Raises ChildLost."""
        ...

    async def stop(self) -> None:
        """End its process. The conversation stays. Never raises."""
        ...

    def __aiter__(self) -> AsyncIterator[News]:
        """Iterating raises ChildLost when the way to the child is lost for good."""
        ...


class OpenChild(Protocol):
    """Open a thread below this one; leaving the block leaves it."""

    @property
    def children_last(self) -> bool:
        """They outlive this process, and people can follow and answer them meanwhile."""
        ...

    def __call__(
        self, thread: ChildThread, *, is_known: bool
    ) -> AbstractAsyncContextManager[ChildLink]:
        """Entering returns once the child listens. Raises ChildLost.

        One that `is_known` was open before: its first news say where it stands (Began, Asked or
        Settled).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named kind of subagent, from a file."""

    name: str
    description: str
    scope: str
    instructions: str = ""
    model: str | None = None
    tools: tuple[str, ...] | None = None
    """None: it names none."""
    disallowed: tuple[str, ...] = ()


class Presets(Protocol):
    """The presets of a project and of its user."""

    async def listed(self) -> Sequence[Preset]:
        """By name, the project's before the user's. Never raises: a broken file is logged once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What subagents are held to."""

    max_depth: int = 1
    max_parallel: int = 8
    max_turns: int = 50
    """The most model turns of one run of a child."""
    idle_timeout: float = 300.0
    """After so many seconds without work a child is closed. 0: never."""
    approval_timeout: float = 86_400.0
    """So long a child that waits for a person is followed."""
    wait: bool = False
    """A call of the Agent tool waits for the results, unless it says otherwise."""
    model: str | None = None
    """What children use when nothing else is said. None: their parent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """What a worker is as a subagent, and how it opens its own. Inert."""

    open_child: OpenChild | None = None
    presets: Presets | None = None
    lineage: Lineage | None = None
    """None: a person's own conversation."""
    reports: bool = False
    """Each finished turn is told as `subagent_turn`."""

    @property
    def depth(self) -> int:
        return self.lineage.depth if self.lineage else 0


NO_DELEGATION = Delegation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of a call of the Agent tool."""

    prompt: str
    label: str = ""
    kind: str | None = None
    """ReadOnly or ReadWrite; None: what a preset lists, else ReadOnly."""
    preset: str | None = None
    model: str | None = None
    mode: str | None = None
    tools: tuple[str, ...] | None = None
    directory: str | None = None
    max_turns: int | None = None
