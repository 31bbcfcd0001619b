"""A channel at work: what people do comes in here, chat by chat, and is confirmed once it is kept.

Rules for editing: an update is handled and its number noted in one plain step, and the service is
asked for the next only when that is on the disk. Who may speak is decided here and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import anyio
import structlog
from anyio.abc import TaskGroup

from roost.channels.conversation import Conversation
from roost.channels.domain.chat import Chat, ChatRules
from roost.channels.domain.commands import COMMANDS
from roost.channels.domain.condition import Condition
from roost.channels.domain.messages import ChatId, Pressed, Sender, Update
from roost.channels.domain.ports import (
    BadToken,
    Contested,
    Daemon,
    Keeps,
    Messaging,
    MessagingError,
    Reports,
    TryLater,
)
from roost.channels.domain.state import ChannelState, ChatState
from roost.channels.saver import Saver

_PATIENCE = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
# Another consumer, or a refused token, is for a person to put right.
_LONG = 60.0
_MOST_ACKNOWLEDGED = 64
_LAST_SAVE = 5.0
_BETWEEN_REPORTS = 1.0

log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Channel:
    """One messaging service, and the chats that may use it."""

    service: Messaging
    daemon: Daemon
    keeps: Keeps
    reports: Reports
    state: ChannelState
    allowed: frozenset[int]
    """Chats that are answered; in a group, the people too. Exact, and empty means nobody."""
    rules: ChatRules
    projects: Mapping[int, str] = field(default_factory=dict[int, str])
    """The folder of a chat, where it is not the usual one."""
    _conversations: dict[int, Conversation] = field(default_factory=dict[int, Conversation])
    _saver: Saver = field(init=False)
    _own_name: str = ""
    _condition: Condition = field(default_factory=lambda: Condition(status="starting"))
    _reported: anyio.Event = field(default_factory=anyio.Event)
    _acknowledging: int = 0

    def __post_init__(self) -> None:
        self._saver = Saver(self.keeps, lambda: self.state.encoded())

    async def serve(self) -> None:
        """Until cancelled. What is known then is kept."""
        end_watch = self.daemon.watch(self._stir_all)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._saver.serve)
                tasks.start_soon(self._tell_condition)
                for state in list(self.state.chats.values()):
                    if state.id in self.allowed:
                        self._begin(state, tasks)
                await self._introduce()
                await self._receive(tasks)
        finally:
            end_watch()
            with anyio.move_on_after(_LAST_SAVE, shield=True):
                await self._saver.save()

    def _stir_all(self) -> None:
        for conversation in self._conversations.values():
            conversation.stir()

    # What people do

    async def _introduce(self) -> None:
        """Learn our own name, as soon as the service answers."""
        failures = 0
        while True:
            try:
                self._own_name = await self.service.introduce(list(COMMANDS.items()))
            except MessagingError as exc:
                await self._pause(exc, failures)
                failures += 1
                continue
            for conversation in self._conversations.values():
                conversation.chat.own_name = self._own_name
            self._went(None)
            log.info("channel_connected", channel=self.rules.service, name=self._own_name)
            return

    async def _receive(self, tasks: TaskGroup) -> None:
        failures = 0
        while True:
            await self._saver.wait_saved()
            try:
                updates = await self.service.receive(self.state.last_update)
            except MessagingError as exc:
                await self._pause(exc, failures)
                failures += 1
                continue
            failures = 0
            self._went(None)
            for update in updates:
                self._handle(update, tasks)

    async def _pause(self, exc: MessagingError, failures: int) -> None:
        wait = _PATIENCE[min(failures, len(_PATIENCE) - 1)]
        if isinstance(exc, TryLater):
            wait = exc.seconds
        elif isinstance(exc, Contested | BadToken):
            wait = _LONG
        self._went(exc)
        await anyio.sleep(wait)

    def _handle(self, update: Update, tasks: TaskGroup) -> None:
        """One update: what it leads to, and its number, change in one step."""
        last = self.state.last_update
        if last is not None and update.number <= last:
            return  # the service tells again what it was not sure we know
        self.state.last_update = update.number
        self._saver.touch()
        what = update.what
        if what is None:
            return
        if not self._may_speak(what.sender):
            log.info("stranger_ignored", chat=what.sender.chat, person=what.sender.person)
            return
        conversation = self._conversation(what.sender, tasks)
        now = anyio.current_time()
        if isinstance(what, Pressed):
            words = conversation.chat.pressed(what, now)
            self._acknowledge(what.id, words, tasks)
        else:
            conversation.chat.written(what, now)
        conversation.stir()

    def _may_speak(self, sender: Sender) -> bool:
        if sender.chat not in self.allowed:
            return False
        return not sender.is_group or sender.person in self.allowed

    def _acknowledge(self, press: str, words: str, tasks: TaskGroup) -> None:
        async def acknowledge() -> None:
            try:
                await self.service.acknowledge(press, words)
            finally:
                self._acknowledging -= 1

        if self._acknowledging < _MOST_ACKNOWLEDGED:
            self._acknowledging += 1
            tasks.start_soon(acknowledge)

    # Chats

    def _conversation(self, sender: Sender, tasks: TaskGroup) -> Conversation:
        known = self._conversations.get(sender.chat)
        if known is not None:
            return known
        state = self.state.chats.setdefault(str(sender.chat), ChatState(id=sender.chat))
        state.is_group = sender.is_group
        return self._begin(state, tasks)

    def _begin(self, state: ChatState, tasks: TaskGroup) -> Conversation:
        project = self.projects.get(state.id, self.rules.project)
        chat = Chat(state, replace(self.rules, project=project), self.service, self._own_name)
        chat.saw_views(self.daemon.views(), anyio.current_time())
        conversation = Conversation(
            chat=chat,
            service=self.service,
            daemon=self.daemon,
            saver=self._saver,
            last=self._last_messages,
            went=self._went,
        )
        self._conversations[state.id] = conversation
        tasks.start_soon(conversation.serve)
        return conversation

    def _last_messages(self) -> Mapping[ChatId, int]:
        return {ChatId(state.id): state.last_message for state in self.state.chats.values()}

    # How it is

    def _went(self, failure: MessagingError | None) -> None:
        match failure:
            case None:
                self._report("connected")
            case Contested():
                detail = "another program receives with the same bot token; stop one of the two"
                self._report("contested", detail)
            case BadToken():
                self._report("refused", f"the bot token is not accepted ({failure})")
            case TryLater():
                self._report("connected", f"the service asks for a pause of {failure.seconds:g} s")
            case _:
                self._report("unreachable", str(failure))

    def _report(self, status: str, detail: str = "") -> None:
        waiting = sum(
            len([p for p in state.shown.posts if not p.parts])
            for state in self.state.chats.values()
        )
        condition = Condition(
            status=status, detail=detail, chats=len(self._conversations), waiting=waiting
        )
        if condition == self._condition:
            return
        if condition.status != self._condition.status:
            log.info("channel_changed", channel=self.rules.service, status=status, reason=detail)
        self._condition = condition
        self._reported.set()

    async def _tell_condition(self) -> None:
        """Now and whenever it changed, but not for each of many changes."""
        while True:
            self._reported = anyio.Event()
            await self.reports.report(self._condition)
            await anyio.sleep(_BETWEEN_REPORTS)
            await self._reported.wait()
