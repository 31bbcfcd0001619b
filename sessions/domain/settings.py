"""The numbers of the registry, with the design's defaults. Seconds and bytes."""

from dataclasses import dataclass

MINUTE = 60.0
HOUR = 60 * MINUTE
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """What the registry decides by. The composition root fills it from the user's settings."""

    idle_timeout: float = 10 * MINUTE
    """How long a worker that nobody follows is kept on the user's turn."""
    approval_timeout: float = 24 * HOUR
    """How long a worker whose run waits for a person is kept: people sleep."""
    stop_grace: float = 25.0
    """How long a worker that was asked to end may take before it is made to."""
    snapshot_timeout: float = 90.0
    """How long an open waits for its snapshot; real clients give up then, too. So does a panel
    request for its reply, but for a `tool_request`, which may take as long as its tool does."""
    ring_events: int = 4096
    ring_bytes: int = 4 * MIB
    max_line_bytes: int = 16 * MIB
    """The longest line to a worker: a 10 MiB attachment fits in base64."""
    durable_interrupts: bool = True
    """The worker keeps open interrupts on disk, so they survive its exit."""
    announces_ready: bool = True
    """The worker's first line is ``ready``; frames wait for it."""
    backoff: tuple[float, ...] = (0.25, 1.0, 5.0)
    """Waits before the next launches of a thread whose workers end before their first line."""
    backoff_refusal: float = 30.0
    """How long launches are refused when the waits are used up."""
    max_waiting: int = 4096
    """How many frames may wait in one thread for its worker, and how many answers from it."""
    max_browser_commands: int = 64
    """How many browser commands of one worker may be on their way at once."""
    join_lines: int = 1000
    join_bytes: int = MIB
    """From where on the patches that a joiner would need are thinned out."""
