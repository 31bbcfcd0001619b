"""What is kept of a channel between two starts: one document, written as a whole.

An update is confirmed in the same document that holds what it led to, so that a crash between the
two can neither lose it nor do it twice.
"""

import msgspec

from roost.channels.domain.decisions import Decision
from roost.channels.domain.messages import InFile
from roost.channels.domain.posts import Shown
from sessions.domain.keys import ConversationId, ThreadKey

# How many of a thread's messages are remembered as shown.
_MOST_SEEN = 400


class Input(msgspec.Struct, kw_only=True):
    """A person's message, until the agent has it."""

    id: str
    project_dir: str
    conversation_id: str
    text: str
    files: list[InFile] = []

    @property
    def thread(self) -> ThreadKey:
        return ThreadKey(self.project_dir, ConversationId(self.conversation_id))


class ChatState(msgspec.Struct, kw_only=True):
    """One chat."""

    id: int
    is_group: bool = False
    project_dir: str | None = None
    conversation_id: str | None = None
    is_new_here: bool = False
    """The conversation was chosen here, and has a past that is no news."""
    seen: list[str] = []
    """Ids of the conversation's messages that were put on the screen, the newest last."""
    is_watching: bool = False
    inputs: list[Input] = []
    decisions: list[Decision] = []
    next_decision: int = 1
    shown: Shown = msgspec.field(default_factory=Shown)
    is_closed: bool = False
    """The person blocked us: what waits is sent when they write again."""
    last_message: int = 0
    """The newest message that is known in the chat, anybody's."""

    @property
    def thread(self) -> ThreadKey | None:
        if self.project_dir is None or self.conversation_id is None:
            return None
        return ThreadKey(self.project_dir, ConversationId(self.conversation_id))

    def choose(self, thread: ThreadKey, *, is_new_here: bool) -> None:
        """Talk in that thread from now on."""
        self.project_dir, self.conversation_id = thread.project_dir, thread.conversation_id
        self.is_new_here = is_new_here
        self.seen = []

    def saw(self, message_id: str) -> None:
        if message_id not in self.seen:
            self.seen = [*self.seen[-_MOST_SEEN:], message_id]

    def thread_decisions(self, thread: ThreadKey) -> list[Decision]:
        """What waits there for a person, as far as this chat was told."""
        return [
            decision
            for decision in self.decisions
            if not decision.is_closed and decision_thread(decision) == thread
        ]


class ChannelState(msgspec.Struct, kw_only=True):
    """All of it."""

    version: int = 1
    last_update: int | None = None
    chats: dict[str, ChatState] = {}

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


def decision_thread(decision: Decision) -> ThreadKey:
    return ThreadKey(decision.project_dir, ConversationId(decision.conversation_id))


def decoded(content: bytes) -> ChannelState:
    """Raises msgspec.MsgspecError."""
    return msgspec.json.decode(content, type=ChannelState)
