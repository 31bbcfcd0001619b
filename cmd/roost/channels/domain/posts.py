"""What a chat should show, and what it shows: messages on their way, from a wish to the screen.

`Screen` decides what to do next for one chat, one request at a time and in order; the caller does
it and says how it went. All of it is kept on disk between the two, so that a restart goes on where
it was. A send whose answer was lost is looked for before it is sent again. Time is an argument.

Rules for editing: nothing here waits; a post leaves only when all of it was sent, or when the
service refused it for good.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from roost.channels.domain.messages import Button, Chunk, MessageId, OutFile, Outgoing
from roost.channels.domain.ports import Limits

# Beyond this many unsent posts the person would read for hours; the conversation has it all.
MOST_POSTS = 300
# Menus whose buttons still work.
_MOST_KEPT = 30
_LEFT_OUT = "_Some messages were left out here: too many waited. The conversation has them all._"
# A longer text takes tens of milliseconds to render, too long for an event loop.
_LONG = 2000
_PATIENCE = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Part(msgspec.Struct):
    """One message of a post, as it was sent or last changed."""

    id: int
    digest: str


class Post(msgspec.Struct, kw_only=True):
    """One thing to show. A long text takes several messages."""

    key: str
    text: str
    number: int = 0
    buttons: list[list[Button]] = []
    file: OutFile | None = None
    reply_to: int | None = None
    silent: bool = False
    grows: bool = False
    """More text comes: it may be shown as it is, at the growth's slower pace."""
    is_kept: bool = False
    """Stays when it was sent: its buttons can be pressed, its text can change."""
    as_plain: bool = False
    parts: list[Part] = []
    place: int | None = None
    """A send was begun from there, and how it went is not known."""
    shown_from: float = msgspec.field(default=0.0)
    """When a growing text may first be seen, on this process's clock."""


@dataclass(frozen=True, slots=True)
class Step:
    """The next request for a chat."""

    kind: Literal["send", "edit", "find"]
    post: Post
    index: int
    message: Outgoing

    @property
    def message_id(self) -> MessageId:
        return MessageId(self.post.parts[self.index].id)

    @property
    def place(self) -> int:
        return self.post.place or 0


class Shown(msgspec.Struct):
    """What is kept of a screen."""

    posts: list[Post] = []
    next_number: int = 1


@dataclass(slots=True)
class Screen:
    """The posts of one chat."""

    shown: Shown
    chunks: Callable[[str], Sequence[Chunk]]
    limits: Limits
    pause: float
    _not_before: float = 0.0
    _failures: int = 0
    _rendered: dict[int, tuple[str, Sequence[Chunk]]] = field(
        default_factory=dict[int, tuple[str, Sequence[Chunk]]]
    )

    def __post_init__(self) -> None:
        for post in self.posts:
            post.shown_from = 0.0  # of another process's clock

    @property
    def posts(self) -> list[Post]:
        return self.shown.posts

    def find(self, number: int) -> Post | None:
        return next((post for post in self.posts if post.number == number), None)

    def keyed(self, key: str) -> Post | None:
        return next((post for post in reversed(self.posts) if post.key == key), None)

    def put(self, post: Post, now: float) -> Post:
        """Show it, behind everything else."""
        post.number = self.shown.next_number
        self.shown.next_number += 1
        if post.grows:
            post.shown_from = now + self.pause
        self.posts.append(post)
        self._bound()
        return post

    def _bound(self) -> None:
        waiting = [post for post in self.posts if not post.is_kept]
        if len(waiting) > MOST_POSTS:
            begun = [post for post in waiting if post.parts or post.place is not None]
            first = next(post for post in waiting if post not in begun)
            if first.text != _LEFT_OUT:
                first.text, first.file, first.buttons, first.grows = _LEFT_OUT, None, [], False
            behind = waiting[waiting.index(first) + 1]
            if behind not in begun:
                self.posts.remove(behind)
        kept = [post for post in self.posts if post.is_kept and post.key.startswith("menu:")]
        for post in kept[:-_MOST_KEPT]:
            post.is_kept = False

    # What to do

    def unrendered(self, now: float) -> Post | None:
        """A long text that is due, and has to be rendered first: elsewhere, see `rendered`."""
        if now < self._not_before:
            return None
        for post in self.posts:
            known = self._rendered.get(post.number)
            is_due = len(post.text) > _LONG and not (post.grows and now < post.shown_from)
            if is_due and (known is None or known[0] != post.text):
                return post
        return None

    def rendered(self, post: Post, text: str, made: Sequence[Chunk]) -> None:
        """What `chunks` makes of the text."""
        self._rendered[post.number] = (text, list(made[:1]) if post.file is not None else made)

    def next_step(self, now: float) -> Step | None:
        """What may be done now."""
        if now < self._not_before:
            return None
        self._forget_done()
        for post in self.posts:
            step = self._step(post, now)
            if step is not None:
                return step
            if post.grows and not post.parts:
                return None  # what comes behind a text stays behind it
        return None

    def wake_at(self, now: float) -> float:
        """When there may be something to do that can't be done now."""
        if self._not_before > now:
            return self._not_before
        growing = (post.shown_from for post in self.posts if post.grows)
        return min((at for at in growing if at > now), default=float("inf"))

    def _forget_done(self) -> None:
        for post in [p for p in self.posts if not p.is_kept and not p.grows and self._is_done(p)]:
            self.posts.remove(post)
            self._rendered.pop(post.number, None)

    def _is_done(self, post: Post) -> bool:
        return post.place is None and self._undone(post) is None

    def _undone(self, post: Post) -> tuple[int, Outgoing] | None:
        """The first message of a post that is not as it should be."""
        messages = list(self._messages(post))
        for index, message in enumerate(messages):
            if index >= len(post.parts):
                return index, message
            if self.limits.edits and post.parts[index].digest != _digest(message):
                return index, message
        if self.limits.edits and len(post.parts) > len(messages) > 0:
            # The text became shorter; what can't be taken back says so.
            surplus = Outgoing(chunk=Chunk("…", "…"))
            for index in range(len(messages), len(post.parts)):
                if post.parts[index].digest != _digest(surplus):
                    return index, surplus
        return None

    def _step(self, post: Post, now: float) -> Step | None:
        if post.grows and (now < post.shown_from or not self.limits.edits):
            return None
        undone = self._undone(post)
        if undone is None:
            return None
        index, message = undone
        if index < len(post.parts):
            return Step("edit", post, index, message)
        return Step("find" if post.place is not None else "send", post, index, message)

    def _messages(self, post: Post) -> Iterator[Outgoing]:
        chunks = self._chunks(post)
        for index, chunk in enumerate(chunks):
            is_last = index == len(chunks) - 1
            yield Outgoing(
                chunk=chunk,
                as_plain=post.as_plain,
                buttons=_named_buttons(post) if is_last and self.limits.buttons else (),
                reply_to=MessageId(post.reply_to) if post.reply_to and index == 0 else None,
                silent=post.silent or index > 0,
                file=post.file,
            )

    def _chunks(self, post: Post) -> Sequence[Chunk]:
        known = self._rendered.get(post.number)
        if known is not None and (known[0] == post.text or _is_long_and_grows(post)):
            return known[1]  # what has grown meanwhile is shown by the next edit
        made = self.chunks(post.text)
        if post.file is not None:
            made = list(made[:1]) or [Chunk("", "")]
        self._rendered[post.number] = (post.text, made)
        return made

    # How it went

    def began(self, step: Step, place: int) -> None:
        """It is about to be sent. To be on disk before it is."""
        step.post.place = place

    def done(self, step: Step, message_id: MessageId, now: float) -> None:
        """The message is there, and as it should be."""
        post = step.post
        # What was found may be an earlier state of it: to be put right by an edit.
        is_known = step.kind != "find" or not self.limits.edits
        part = Part(message_id, _digest(step.message) if is_known else "")
        if step.index < len(post.parts):
            post.parts[step.index] = part
        else:
            post.parts.append(part)
        if step.kind != "edit":
            post.place = None
        if post.file is not None and post.file.text is not None:
            post.file = msgspec.structs.replace(post.file, text="")  # sent: edits are without it
        self._failures = 0
        self._not_before = now + self.pause
        if post.grows:
            post.shown_from = now + max(self.limits.growth_pause, 2 * self.pause)

    def absent(self, step: Step) -> None:
        """It was looked for, and is not there: it can be sent."""
        step.post.place = None
        self._failures = 0

    def markup_refused(self, step: Step) -> None:
        """The same again as plain text; a second refusal is final."""
        if step.post.as_plain:
            self.refused(step)
        else:
            step.post.as_plain = True
            step.post.place = None

    def refused(self, step: Step) -> None:
        """The service will never take it: the rest goes on without."""
        post = step.post
        post.place = None
        if step.index < len(post.parts):
            post.parts[step.index].digest = _digest(step.message)
        elif post.file is not None:
            name, post.file, post.as_plain = post.file.name, None, True
            post.text = f"{post.text}\n\n({name} could not be sent here.)"
        else:
            post.parts.append(Part(0, _digest(step.message)))

    def failed(self, step: Step, now: float) -> float:
        """No answer: again later, in growing steps. Returns how much later."""
        wait = _PATIENCE[min(self._failures, len(_PATIENCE) - 1)]
        self._failures += 1
        self._not_before = now + wait
        return wait

    def hold(self, step: Step, seconds: float, now: float) -> None:
        """The service said when; nothing was done."""
        if step.kind == "send":
            step.post.place = None
        self._not_before = now + seconds


def _is_long_and_grows(post: Post) -> bool:
    return post.grows and len(post.text) > _LONG


def _named_buttons(post: Post) -> tuple[tuple[tuple[str, str], ...], ...]:
    rows: list[tuple[tuple[str, str], ...]] = []
    count = 0
    for row in post.buttons:
        rows.append(tuple((b.label, _name(post, n, b)) for n, b in enumerate(row, count)))
        count += len(row)
    return tuple(rows)


def pressed(posts: Sequence[Post], name: str) -> Button | None:
    """The button that a press names. None: it is too old, or was never ours."""
    for post in posts:
        buttons = [button for row in post.buttons for button in row]
        for index, button in enumerate(buttons):
            if _name(post, index, button) == name:
                return button
    return None


def _name(post: Post, index: int, button: Button) -> str:
    """With a mark of what it does: a number that is used again must not press something else."""
    mark = hashlib.blake2b(f"{post.key} {button.action}".encode(), digest_size=6).hexdigest()
    return f"{post.number}:{index}:{mark}"


def _digest(message: Outgoing) -> str:
    told = repr((message.chunk, message.as_plain, message.buttons))
    return hashlib.blake2b(told.encode(errors="replace"), digest_size=8).hexdigest()
