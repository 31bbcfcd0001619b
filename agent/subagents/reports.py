"""What a subagent tells of each turn, on its own thread: the CUSTOM event `subagent_turn`.

A turn may take several runs, when a person had to decide something in between: they are one report.
"""

from collections.abc import Iterable

from agent.domain.conversation import Conversation
from agent.domain.events import Custom, Usage
from agent.domain.subagents import TURN

STOPPED = "It was stopped."


class TurnReports:
    """Counts what the runs of a turn did, until it is told."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._clear()

    def add(self, succeeded: int, failed: int, usage: Iterable[Usage]) -> None:
        """Count a run that has ended."""
        self._succeeded += succeeded
        self._failed += failed
        for row in usage:
            self._input += row.input_tokens or 0
            self._output += row.output_tokens or 0
            self._cached += row.cached_input_tokens or 0

    def tell(self, error: str | None) -> Custom:
        """The report of the turn that ends now; with an error it was no success."""
        stats = {
            "tools_succeeded": self._succeeded,
            "tools_failed": self._failed,
            "input_tokens": self._input,
            "output_tokens": self._output,
        }
        if self._cached:
            stats["cached_tokens"] = self._cached
        value: dict[str, object] = {
            "final_assistant": self._last_text(),
            "success": error is None,
            "session_id": self._conversation.conversation_id,
            "done": not len(self._conversation.queue),
            "stats": stats,
        }
        if error is not None:
            value["error"] = error
        self._clear()
        return Custom(name=TURN, value=value)

    def _last_text(self) -> str:
        """What the agent said last, since it was last spoken to."""
        for message in reversed(list(self._conversation.transcript)):
            if message.role == "assistant" and message.text:
                return message.text
            if message.role == "user":
                break
        return ""

    def _clear(self) -> None:
        self._succeeded = self._failed = 0
        self._input = self._output = self._cached = 0
