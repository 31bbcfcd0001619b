"""What the chat's own thread says, as posts: the agent's words as they grow, calls, errors. Pure.

The snapshot is the truth: what it has and the chat has not shown is shown, also after a night
without a network. Words of people are not repeated, whoever wrote them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from roost.channels.domain.decisions import call_line
from roost.channels.domain.escaping import inline, lines, shortened
from roost.channels.domain.markdown import render
from roost.channels.domain.messages import OutFile
from roost.channels.domain.posts import Post, Screen
from roost.channels.domain.state import ChatState
from roost.channels.domain.thread_reader import Call, Failed, Joined

LONGEST_ERROR = 1000
_RECAP = 200
_MOST_LINES = 30
# About ten messages. A longer text goes as a file behind its beginning.
LONGEST_TEXT = 30_000
_MOST_FILES = 10
_LONGEST_LINKED = 4000

FindFile = Callable[[str, str], OutFile | None]
"""The file that a text in a project refers to, if it is one that may be sent."""


@dataclass(slots=True)
class Transcript:
    state: ChatState
    screen: Screen
    find_file: FindFile
    _tools: Post | None = None
    _lines: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for post in self.screen.posts:
            if post.key.startswith("tools:"):
                post.grows = False  # of another life: its calls are not known any more

    def joined(self, joined: Joined, now: float) -> None:
        """A snapshot: show what is new in it."""
        self._end_tools()
        messages = [
            (id_, text) for id_, role, text in joined.messages if role == "assistant" and text
        ]
        known = [n for n, (id_, _) in enumerate(messages) if id_ in self.state.seen]
        if self.state.is_new_here or (self.state.seen and messages and not known):
            self._begin_here(messages, now)
            return
        for id_, text in messages[: known[-1] + 1 if known else 0]:
            self._grow(id_, text)
        news = messages[known[-1] + 1 if known else 0 :]
        for place, (id_, text) in enumerate(news):
            self.said(id_, text, is_whole=place < len(news) - 1, now=now)

    def _begin_here(self, messages: list[tuple[str, str]], now: float) -> None:
        self.state.is_new_here = False
        for id_, _ in messages:
            self.state.saw(id_)
        if messages:
            recap = shortened(" ".join(messages[-1][1].split()), _RECAP)
            self._note("recap", f"The agent's last words there: {inline(recap)}", now)

    def said(self, id_: str, text: str, *, is_whole: bool, now: float) -> None:
        """The agent's words so far."""
        if id_ in self.state.seen:
            self._grow(id_, text)
        elif text.strip():
            self._end_tools()
            self.state.saw(id_)
            self._begin(id_, text, now)
        post = self.screen.keyed(f"text:{id_}")
        if is_whole and post is not None and post.grows:
            self._whole(post, text, now)

    def _begin(self, id_: str, text: str, now: float) -> None:
        """The newest text stays at hand: only what comes behind it shows that it is whole."""
        for post in self.screen.posts:
            if post.key.startswith("text:"):
                post.is_kept = False
        post = Post(key=f"text:{id_}", text=_shown(text), grows=True, is_kept=True)
        self.screen.put(post, now)

    def _grow(self, id_: str, text: str) -> None:
        post = self.screen.keyed(f"text:{id_}")
        if post is not None:
            post.text = _shown(text)

    def _whole(self, post: Post, text: str, now: float) -> None:
        post.grows = False
        if len(text) > LONGEST_TEXT:
            self._file(post.key, OutFile(name="answer.md", text=text), now)
        found: list[OutFile] = []
        for reference in render(_with_links(text)).references:
            file = self.find_file(self.state.project_dir or "/", reference)
            if file is not None and len(found) < _MOST_FILES:
                found.append(file)
        for file in found:
            self._file(post.key, file, now)

    def _file(self, key: str, file: OutFile, now: float) -> None:
        name = inline(file.name)
        self.screen.put(Post(key=f"file:{key}", text=name, file=file, silent=True), now)

    def called(self, call: Call, now: float) -> None:
        """A call in one line. Consecutive ones share a post."""
        line = call_line(call)
        if call.error:
            quoted = lines(shortened(call.error.strip(), LONGEST_ERROR)).replace("\n", "\n> ")
            line += f"\n\n> {quoted}\n"
        if self._tools is None or (len(self._lines) >= _MOST_LINES and call.id not in self._lines):
            self._end_tools()
            post = Post(key=f"tools:{call.id}", text="", silent=True, grows=True)
            self._tools = self.screen.put(post, now)
        self._lines[call.id] = line
        self._tools.text = "  \n".join(self._lines.values())

    def failed(self, failed: Failed, now: float) -> None:
        if failed.run_id:
            self.finish(now)
        message = shortened(failed.message.strip() or "Something failed.", LONGEST_ERROR)
        self._note("error", f"⚠️ {lines(message)}", now)

    def ended(self, outcome: str, now: float) -> None:
        """A run ended."""
        self.finish(now)
        if outcome == "cancelled":
            self._note("note", "Stopped.", now)

    def finish(self, now: float) -> None:
        """Nothing that was said grows any more."""
        self._end_tools()
        for post in [post for post in self.screen.posts if post.grows]:
            self._whole(post, post.text, now)

    def _end_tools(self) -> None:
        if self._tools is not None:
            self._tools.grows = False
        self._tools = None
        self._lines = {}

    def _note(self, key: str, text: str, now: float) -> None:
        self.screen.put(Post(key=key, text=text, silent=key != "error"), now)


def _with_links(text: str) -> str:
    """The paragraphs that may refer to files: rendering all of a long text takes too long."""
    paragraphs = (part for part in text.split("\n\n") if "](" in part)
    return "\n\n".join(paragraphs)[:_LONGEST_LINKED]


def _shown(text: str) -> str:
    """So much as a chat bears."""
    if len(text) <= LONGEST_TEXT:
        return text
    return text[:LONGEST_TEXT] + "\n\n…\n\n_The whole text is in the file below._"
