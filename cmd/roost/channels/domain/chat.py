"""One chat: what a person writes and presses becomes frames, what threads say becomes posts. Pure.

The chat says which threads it wants to follow (`wants`) and what is to be sent to them (`orders`);
the caller follows, sends, and brings what comes. Everything that must survive a restart is in
`ChatState`; what is beside it may be lost at any moment.

Rules for editing: all of it is plain functions, and time is an argument. A message of a person
stays in `state.inputs` until the agent is seen to have it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from roost.channels.domain.commands import is_for_another, parse_command
from roost.channels.domain.decisions import Decision, resume
from roost.channels.domain.escaping import code, inline, lines
from roost.channels.domain.inbox import DECIDED, Inbox
from roost.channels.domain.menus import Menus
from roost.channels.domain.messages import InFile, Pressed, Written
from roost.channels.domain.ports import Shows, Views
from roost.channels.domain.posts import Post, Screen, pressed
from roost.channels.domain.state import ChatState, Input, decision_thread
from roost.channels.domain.thread_reader import (
    Began,
    Called,
    Ended,
    Failed,
    Joined,
    News,
    Replied,
    Said,
    Taken,
    ThreadReader,
)
from roost.channels.domain.transcript import FindFile, Transcript
from sessions.domain.keys import ThreadKey
from sessions.domain.ports import ThreadView

# How long a thread is followed after the last thing that happened in it or was asked of it, so
# that its worker can be stopped when nobody needs it.
LINGER = 600.0
# Threads that are followed for their decisions, besides the chat's own.
_MOST_WATCHED = 32
_MOST_INPUTS = 100
# Errors after which what was sent will not be taken, however often it is sent.
_FOR_GOOD = frozenset(
    {
        "bad_frame",
        "bad_input",
        "launch_failed",
        "launch_refused",
        "line_too_long",
        "too_many_waiting",
    }
)

# Errors that tell whoever answered that the answer did not count, and that it is asked again.
_ANSWER_LOST = _FOR_GOOD | {"incomplete_resume", "worker_exit", "worker_unavailable", "stopped"}

TOO_OLD = "This button is too old and does nothing any more. /threads shows what waits."
_NO_PROJECT = (
    "Which folder shall the agent work in? Tell me with `/project /path/to/folder`, and send your"
    " message again. (`telegram.project` in the settings makes it the usual one.)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRules:
    """What the settings say of a chat."""

    service: str
    """In ids and in words: "telegram"."""
    project: str | None = None
    largest_file: int = 10 * 2**20
    file_types: tuple[str, ...] = ("*/*",)
    """What people may send, as patterns of MIME types."""
    require_approval: bool = True
    find_file: FindFile = lambda project, reference: None
    is_folder: Callable[[str], bool] = lambda path: True


@dataclass(frozen=True, slots=True)
class Order:
    """A frame for a thread."""

    thread: ThreadKey
    frame: dict[str, Any]


@dataclass(slots=True)
class Chat:
    """One conversation between a person, or a group, and the agents."""

    state: ChatState
    rules: ChatRules
    service: Shows
    own_name: str = ""
    orders: deque[Order] = field(default_factory=deque[Order])
    outbound: deque[Input] = field(default_factory=deque[Input])
    """Messages to send to the agent now, in order; their files have to be fetched first."""
    screen: Screen = field(init=False)
    _views: dict[ThreadKey, ThreadView] = field(default_factory=dict[ThreadKey, ThreadView])
    _readers: dict[ThreadKey, ThreadReader] = field(default_factory=dict[ThreadKey, ThreadReader])
    _linger_until: float = 0.0
    _transcript: Transcript = field(init=False)
    _inbox: Inbox = field(init=False)
    _menus: Menus = field(init=False)
    _own_runs: bool = False
    """The run that goes on began with a message from here."""

    def __post_init__(self) -> None:
        limits = self.service.limits
        pause = limits.group_pause if self.state.is_group else limits.pause
        self.screen = Screen(self.state.shown, self.service.chunks, limits, pause)
        self._transcript = Transcript(self.state, self.screen, self.rules.find_file)
        self._inbox = Inbox(self.state, self.screen, self._send_resume)
        self._menus = Menus(self.state, self.screen, self._order, self.rules.is_folder)
        if self.state.project_dir is None and self.rules.project is not None:
            self._menus.choose_project(self.rules.project, self._first_conversation())

    def _first_conversation(self) -> str:
        return f"{self.rules.service}-{self.state.id}"

    # Threads to follow

    def wants(self, now: float) -> list[ThreadKey]:
        """The threads to follow now, the chat's own first."""
        wanted: dict[ThreadKey, None] = {}
        own = self.state.thread
        if own is not None and (now < self._linger_until or self._goes_on(own)):
            wanted[own] = None
        for input_ in self.state.inputs:
            wanted[input_.thread] = None
        for decision in self.state.decisions:
            wanted[decision_thread(decision)] = None
        for order in self.orders:
            wanted[order.thread] = None
        if self.state.is_watching:
            for key in [key for key, view in self._views.items() if view.interrupts]:
                if len(wanted) <= _MOST_WATCHED:
                    wanted[key] = None
        return list(wanted)

    def next_deadline(self, now: float) -> float:
        """When `wants` changes by itself."""
        return self._linger_until if self._linger_until > now else float("inf")

    def _goes_on(self, key: ThreadKey) -> bool:
        view = self._views.get(key)
        return view is not None and (view.run_id is not None or bool(view.interrupts))

    def saw_views(self, views: Views, now: float) -> None:
        """What the daemon knows of all threads, when all that came before it was taken."""
        self._views = {ThreadKey.parse(v.project_dir, v.conversation_id): v for v in views.threads}
        for key, reader in self._readers.items():
            view = self._views.get(key)
            if view is not None and reader.is_joined and reader.heard_at <= views.at:
                self._saw_view(key, view, now, is_idle=reader.run_id is None)

    def _saw_view(self, key: ThreadKey, view: ThreadView, now: float, *, is_idle: bool) -> None:
        """A view that is newer than all that we heard of the thread."""
        is_over = is_idle and view.status == "idle"
        if is_over:
            self._inbox.not_open(key, now)
            if key == self.state.thread:
                self._transcript.finish(now)
        if view.answered_by is not None:
            self._inbox.decided_in(key, view.answered_by, now)
        if is_idle and view.run_id is None and not view.interrupts:
            self._inbox.left(key)

    def followed(self, thread: ThreadKey) -> None:
        """A line to a thread begins; its snapshot comes."""
        self._readers[thread] = ThreadReader()

    def left(self, thread: ThreadKey, now: float) -> None:
        """The line has ended."""
        self._readers.pop(thread, None)
        self._inbox.left(thread)
        if thread == self.state.thread:
            self._transcript.finish(now)

    def is_joined(self, thread: ThreadKey) -> bool:
        reader = self._readers.get(thread)
        return reader is not None and reader.is_joined

    # What people do

    def written(self, message: Written, now: float) -> None:
        """A message from the chat."""
        self.state.is_closed = False
        self.state.last_message = max(self.state.last_message, message.id)
        self.state.is_group = message.sender.is_group
        text = message.text.strip()
        if is_for_another(text, self.own_name):
            return
        if self._answers(message, text, now):
            return
        command = parse_command(text, self.own_name)
        if command is not None:
            self._linger_until = now + LINGER
            fresh = f"{self._first_conversation()}-{message.id}"
            self._menus.run(command, fresh, self._reader(), self._views, now)
        elif message.unsupported and not text:
            self._say(f"I can't take {message.unsupported}. Text, pictures and files work.", now)
        else:
            refusals = [words for file in message.files if (words := self._refusal(file))]
            for words in refusals:
                self._say(words, now)
            if not refusals and (text or message.files):
                self._tell_agent(message, text, now)

    def _refusal(self, file: InFile) -> str | None:
        """Why a file that a person sent can't be taken, with what they can do about it."""
        name = inline(file.name)
        if not any(fnmatchcase(file.mime_type, pattern) for pattern in self.rules.file_types):
            return f"{name} was not taken: files of type {code(file.mime_type)} are not allowed."
        largest = self.rules.largest_file
        if file.size is not None and file.size > largest:
            size = f"{largest / 2**20:g} MiB"
            return f"{name} was not taken: it is larger than {size}. Send a smaller one."
        return None

    def _answers(self, message: Written, text: str, now: float) -> bool:
        """Is it an answer to what an agent waits for?"""
        post = self._replied_to(message.reply_to)
        own = self.state.thread
        if post is None and not self.service.limits.buttons and own is not None:
            post = self._inbox.first_open_post(own)
            if text.startswith("/"):
                return False
        if post is None or not text:
            return False
        if not self._inbox.replied(post, text, message.sender.name, now):
            self._say(DECIDED, now)
        return True

    def _replied_to(self, message_id: int | None) -> Post | None:
        for post in self.screen.posts:
            if post.key.startswith("ask:") and any(part.id == message_id for part in post.parts):
                return post
        return None

    def _tell_agent(self, message: Written, text: str, now: float) -> None:
        thread = self.state.thread
        if thread is None:
            self._say(_NO_PROJECT, now)
            return
        if len(self.state.inputs) >= _MOST_INPUTS:
            self._say("Too many messages wait for the agent already. Try again later.", now)
            return
        self._linger_until = now + LINGER
        input_ = Input(
            id=f"{self._first_conversation()}-{message.id}",
            project_dir=thread.project_dir,
            conversation_id=thread.conversation_id,
            text=text,
            files=list(message.files),
        )
        self.state.inputs.append(input_)
        if self.state.thread_decisions(thread):
            self._say("Noted. The agent reads it once you have decided what is asked above.", now)
        elif self._is_running(thread):
            self._say("Queued: the agent is busy, and reads it after its present step.", now)
        if self.is_joined(thread):
            self.outbound.append(input_)

    def _is_running(self, thread: ThreadKey) -> bool:
        reader = self._readers.get(thread)
        if reader is not None and reader.is_joined:
            return reader.run_id is not None
        view = self._views.get(thread)
        return view is not None and view.run_id is not None

    def pressed(self, press: Pressed, now: float) -> str:
        """A button was pressed. Returns what to tell the presser."""
        self.state.is_closed = False
        button = pressed(self.screen.posts, press.name)
        if button is None:
            ours = {part.id for post in self.screen.posts for part in post.parts}
            return DECIDED if (press.message or 0) in ours else TOO_OLD
        verb, _, rest = button.action.partition(" ")
        self._linger_until = now + LINGER
        if verb == "decide":
            return self._inbox.pressed(rest.split(), press.sender.name, now)
        return self._menus.pressed(verb, rest, self._first_conversation(), now)

    # What threads say

    def take(self, thread: ThreadKey, frame: bytes, now: float) -> None:
        """A frame of a followed thread."""
        reader = self._readers.get(thread)
        if reader is None:
            return
        for news in reader.take(frame, now):
            self._news(thread, reader, news, now)

    def _news(self, thread: ThreadKey, reader: ThreadReader, news: News, now: float) -> None:
        own = thread == self.state.thread
        match news:
            case Joined():
                self._inbox.joined(thread, reader.calls, now)
                self._send_inputs(thread)
                if own:
                    self._transcript.joined(news, now)
            case Taken(ids):
                self._taken(ids)
            case Began(ids):
                self._taken(ids)
                ours = f"{self._first_conversation()}-"
                self._own_runs |= any(id_.startswith(ours) for id_ in ids)
                self._inbox.began(thread, now)
            case Ended(outcome, asked):
                if own:
                    self._transcript.ended(outcome, now)
                self._ended(thread, asked, now)
            case Failed():
                self._failed(thread, news, now)
            case Called(call):
                self._inbox.came_to(call, now)
                if own:
                    self._transcript.called(call, now)
            case Said(id_, text, is_whole) if own:
                self._transcript.said(id_, text, is_whole=is_whole, now=now)
            case Replied(kind, frame) if own:
                self._menus.replied(kind, frame, now)
            case _:
                pass
        if own:
            self._linger_until = max(self._linger_until, now + LINGER)

    def _ended(self, thread: ThreadKey, asked: tuple[Any, ...], now: float) -> None:
        if asked:
            self._inbox.asked(thread, asked, now)
            if not self.rules.require_approval and self._own_runs and thread == self.state.thread:
                self._inbox.decline_all(thread, now)
        else:
            self._inbox.not_open(thread, now)
            self._own_runs = False

    def _failed(self, thread: ThreadKey, failed: Failed, now: float) -> None:
        if failed.run_id is not None:
            self._inbox.not_open(thread, now)
            self._own_runs = False
        if failed.run_id is None:
            if failed.code in _ANSWER_LOST:
                self._inbox.refused(thread, now)
            if failed.code in _FOR_GOOD:
                self.state.inputs = [i for i in self.state.inputs if i.thread != thread]
        if thread == self.state.thread:
            self._transcript.failed(failed, now)
        elif failed.run_id is None:
            self._say(f"⚠️ {lines(failed.message)}", now)

    def _taken(self, ids: frozenset[str]) -> None:
        """The agent has these messages."""
        self.state.inputs = [i for i in self.state.inputs if i.id not in ids]

    def _send_inputs(self, thread: ThreadKey) -> None:
        """Again, if need be: a message that the agent has already is dropped by its id."""
        for input_ in self.state.inputs:
            if input_.thread == thread and input_ not in self.outbound:
                self.outbound.append(input_)

    def _send_resume(self, thread: ThreadKey, decisions: list[Decision]) -> None:
        frame = {"messages": [], "resume": resume(decisions)}
        self.orders.append(Order(thread, {"type": "run_agent_input", "input": frame}))

    def _order(self, frame: dict[str, Any]) -> None:
        thread = self.state.thread
        if thread is not None:
            self.orders.append(Order(thread, frame))

    def _reader(self) -> ThreadReader | None:
        thread = self.state.thread
        return None if thread is None else self._readers.get(thread)

    def _say(self, text: str, now: float) -> None:
        self.screen.put(Post(key="note", text=text, silent=True), now)
