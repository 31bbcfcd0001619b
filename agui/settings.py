"""The numbers of the binding, with the design's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agui.endpoint.agents import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingSettings:
    """How the port behaves. Durations in seconds."""

    token: str
    port: int = 52789
    """0 picks a free one."""
    allowed_origins: frozenset[str] = frozenset()
    """Pages of others that may connect, exactly as their browsers write their Origin."""
    projects: Path | None = None
    """Where the projects' artifacts are; None serves none."""
    agents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    """What clients over HTTP can name; there always is a default one."""
    own_worker: bool = True
    """Workers are our own: they answer commands, and name runs as they are asked to."""
    hello_timeout: float = 5.0
    header_timeout: float = 10.0
    """How long an HTTP connection may take to ask for something."""
    most_strangers: int = 1024
    """How many connections may be open that have not asked, or not said hello, yet."""
    ping_interval: float = 20.0
    """How often a client is pinged, and how long the answer may take."""
    write_timeout: float = 10.0
    """How long a client may take nothing of what waits for it."""
    keep_alive_interval: float = 15.0
    """How long an HTTP stream may be silent: a comment is sent then."""
    outbox_frames: int = 1024
    outbox_bytes: int = 8 * 2**20
    max_frame_bytes: int = 20 * 2**20
    farewell_timeout: float = 2.0
    """How long a client may take to read its last frames when the daemon stops."""

    def __post_init__(self) -> None:
        if not self.token.strip():
            raise ValueError("the binding needs a token: an empty one would let everybody in")
