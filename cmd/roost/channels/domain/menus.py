"""The commands of a chat: what each says, offers and asks the daemon for. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from roost.channels.domain.commands import COMMANDS, Command
from roost.channels.domain.escaping import code, inline, shortened
from roost.channels.domain.messages import Button
from roost.channels.domain.posts import Post, Screen
from roost.channels.domain.state import ChatState
from roost.channels.domain.thread_reader import ThreadReader
from sessions.domain.frames import MODES
from sessions.domain.keys import BadKey, ThreadKey
from sessions.domain.ports import ThreadView

_MOST_BUTTONS = 10
_MOST_MODELS = 30
_LONGEST_LABEL = 48
_MODES = {
    "standard": "asks before it runs or changes something",
    "plan": "reads and plans, changes nothing",
    "auto": "never asks",
    "auto-with-judge": "a second model decides what has to be asked",
}

Views = Mapping[ThreadKey, ThreadView]


@dataclass(slots=True)
class Menus:
    state: ChatState
    screen: Screen
    order: Callable[[dict[str, Any]], None]
    is_folder: Callable[[str], bool]
    _wanted: str | None = None
    """The beginning of an id that `/conversations` was asked for."""
    _selects: bool = False
    """A model was chosen: the lists that answer that are no menus."""

    def run(
        self,
        command: Command,
        fresh: str,
        reader: ThreadReader | None,
        views: Views,
        now: float,
    ) -> None:
        """Do what a command says. `fresh` is the id of the conversation that `/new` begins."""
        match command.name:
            case "start" | "help":
                self._say(_help(self.state), now)
            case "clear":
                self._say("Nothing is cleared here. /new begins a new conversation.", now)
            case "status":
                self._say(self._status(reader, views), now)
            case "watch":
                self._watch(command.argument, now)
            case "threads":
                self._threads(views, now)
            case "project":
                self._project(command.argument, fresh, views, now)
            case _ if self.state.thread is None:
                self._say("Choose a folder first: `/project /path/to/folder`.", now)
            case "new":
                self._new(fresh, reader, now)
            case "stop":
                self._stop(reader, now)
            case "conversations":
                self._wanted = command.argument or None
                self._panel("list_conversations")
            case "model" if command.argument:
                self._select(command.argument)
            case "model":
                self._panel("list_models")
            case "mode" if command.argument in MODES:
                self._panel("set_mode", mode=command.argument)
            case "mode":
                rows = [
                    [Button(f"{name}: {says}", f"mode {name}")] for name, says in _MODES.items()
                ]
                self._menu("What may the agent do without asking?", rows, now)
            case _:
                pass

    def pressed(self, verb: str, rest: str, first: str, now: float) -> str:
        """A button of a menu. Returns what to tell the presser."""
        match verb:
            case "open":
                project_dir, _, conversation_id = rest.rpartition(" ")
                self._open(ThreadKey.parse(project_dir, conversation_id), now)
            case "project":
                self.choose_project(rest, first)
                self._say(f"The agent works in {code(rest)} now.", now)
            case "model":
                self._select(rest)
            case "mode":
                self._panel("set_mode", mode=rest)
            case _:
                pass
        return ""

    def replied(self, kind: str, frame: Mapping[str, Any], now: float) -> None:
        """What a worker answered to one of these."""
        match kind:
            case "conversations":
                self._conversations(cast("list[dict[str, Any]]", frame.get(kind) or []), now)
            case "models":
                self._models(frame, now)
            case _ if self._selects:
                self._selects = False  # the second part of the answer to a choice of a model
            case _:
                self._say(f"Mode: {inline(str(frame.get('mode')))}.", now)

    def choose_project(self, project_dir: str, conversation_id: str) -> None:
        """Work in a folder from now on. Raises BadKey when it is no absolute path."""
        thread = ThreadKey.parse(project_dir, conversation_id)
        if self.state.thread != thread:
            self.state.choose(thread, is_new_here=True)

    # Conversations and threads

    def _new(self, fresh: str, reader: ThreadReader | None, now: float) -> None:
        project_dir = self.state.project_dir or "/"
        runs = reader is not None and reader.run_id is not None
        self.state.choose(ThreadKey.parse(project_dir, fresh), is_new_here=False)
        left = " What runs in the old one goes on; /threads leads back." if runs else ""
        self._say(f"A new conversation in {code(project_dir)}.{left} What shall I do?", now)

    def _open(self, thread: ThreadKey, now: float) -> None:
        if self.state.thread == thread:
            self._say("This chat is in that conversation already.", now)
            return
        self.state.choose(thread, is_new_here=True)
        where = f"{code(thread.conversation_id)} in {code(thread.project_dir)}"
        self._say(f"This chat is in the conversation {where} now.", now)

    def _conversations(self, found: list[dict[str, Any]], now: float) -> None:
        wanted, self._wanted = self._wanted, None
        project_dir = self.state.project_dir or "/"
        if wanted is not None:
            ids = [str(conversation.get("id")) for conversation in found]
            fitting = [id_ for id_ in ids if id_ == wanted] or [
                id_ for id_ in ids if id_.startswith(wanted)
            ]
            if len(fitting) == 1:
                self._open(ThreadKey.parse(project_dir, fitting[0]), now)
                return
            many = "Several conversations begin" if fitting else "No conversation begins"
            self._say(f"{many} with {code(wanted)}. /conversations lists them.", now)
            return
        rows = [
            [Button(_label(c), f"open {project_dir} {c.get('id')}")] for c in found[:_MOST_BUTTONS]
        ]
        if not rows:
            self._say("There is no earlier conversation in this folder.", now)
            return
        self._menu(f"Conversations in {code(project_dir)}, the newest first:", rows, now)

    def _threads(self, views: Views, now: float) -> None:
        busy = [(k, v) for k, v in views.items() if v.run_id is not None or v.interrupts]
        busy.sort(key=lambda entry: not entry[1].interrupts)  # who waits for a person comes first
        if not busy:
            self._say("Nothing runs, and nothing waits for a decision.", now)
            return
        rows: list[list[Button]] = []
        lines: list[str] = []
        for key, view in busy[:_MOST_BUTTONS]:
            name = key.project_dir.rsplit("/", 1)[-1] or "/"
            waits = len(view.interrupts)
            state = f"waits for {waits} decision{'s' * (waits > 1)}" if waits else "runs"
            lines.append(f"- {code(name)} {code(key.conversation_id)}: {state}")
            label = shortened(
                f"{'❓' if waits else '▶'} {name}: {key.conversation_id}", _LONGEST_LABEL
            )
            rows.append([Button(label, f"open {key.project_dir} {key.conversation_id}")])
        more = len(busy) - _MOST_BUTTONS
        tail = f"\n\nand {more} more" if more > 0 else ""
        self._menu("\n".join(lines) + tail + "\n\nPress one to follow it here:", rows, now)

    def _project(self, argument: str, fresh: str, views: Views, now: float) -> None:
        if argument:
            try:
                thread = ThreadKey.parse(argument, fresh)
            except BadKey:
                self._say("A folder's path begins with `/`, such as `/home/me/project`.", now)
                return
            if not self.is_folder(thread.project_dir):
                self._say(f"There is no folder {code(thread.project_dir)} on that machine.", now)
                return
            self.state.choose(thread, is_new_here=False)
            self._say(f"The agent works in {code(thread.project_dir)} now.", now)
            return
        here = self.state.project_dir
        known = [key.project_dir for key in views if key.project_dir != here]
        rows = [
            [Button(shortened(path, _LONGEST_LABEL), f"project {path}")]
            for path in list(dict.fromkeys(known))[:_MOST_BUTTONS]
        ]
        says = f"The agent works in {code(here)}." if here else "No folder is chosen yet."
        self._menu(f"{says} `/project /path/to/folder` chooses another one.", rows, now)

    # The run, the model, the mode

    def _stop(self, reader: ThreadReader | None, now: float) -> None:
        thread = self.state.thread
        if thread is not None and self.state.thread_decisions(thread):
            self._say("Nothing runs: the agent waits for your decision above.", now)
        elif reader is not None and reader.is_joined and reader.run_id is None:
            self._say("Nothing runs.", now)
        else:
            self.order({"type": "interrupt"})

    def _panel(self, kind: str, **members: str) -> None:
        self.order({"type": kind, "project_dir": self.state.project_dir, **members})

    def _select(self, model: str) -> None:
        self._selects = True
        self._panel("select_model", model=model)

    def _models(self, frame: Mapping[str, Any], now: float) -> None:
        current = str(frame.get("current") or "")
        names = [str(name) for name in cast("list[object]", frame.get("models") or [])]
        rows = [
            [Button(shortened(name, _LONGEST_LABEL), f"model {name}")]
            for name in names[:_MOST_MODELS]
            if name != current
        ]
        known = f"The model is {code(current)}." if current else "No model is set."
        if self._selects:
            self._say(known, now)
            return
        self._menu(f"{known} `/model provider:name` takes any other.", rows, now)

    # Words

    def _watch(self, argument: str, now: float) -> None:
        off = argument.lower() == "off" or (not argument and self.state.is_watching)
        self.state.is_watching = not off
        if off:
            self._say("Only this chat's own conversation asks for decisions here now.", now)
        else:
            self._say("Every thread's decisions come here now. /watch again stops that.", now)

    def _status(self, reader: ThreadReader | None, views: Views) -> str:
        thread = self.state.thread
        if thread is None:
            return "No folder is chosen yet: `/project /path/to/folder`."
        view = views.get(thread)
        runs = reader is not None and reader.run_id is not None
        status = "running" if runs else view.status if view is not None else "at rest"
        waiting = len(self.state.thread_decisions(thread))
        lines = [
            f"Folder: {code(thread.project_dir)}",
            f"Conversation: {code(thread.conversation_id)}",
            f"The agent is {status}." if not waiting else f"{waiting} decisions wait for you.",
            f"Messages that the agent does not have yet: {len(self.state.inputs)}",
            f"Decisions of other threads: {'come here' if self.state.is_watching else 'do not'}",
        ]
        return "  \n".join(lines)

    def _menu(self, text: str, rows: list[list[Button]], now: float) -> None:
        post = Post(key="menu:", text=text, buttons=rows, is_kept=bool(rows), silent=True)
        self.screen.put(post, now)

    def _say(self, text: str, now: float) -> None:
        self.screen.put(Post(key="note", text=text, silent=True), now)


def _help(state: ChatState) -> str:
    works = f" It works in {code(state.project_dir)}." if state.project_dir else ""
    commands = "\n".join(f"- /{name}: {says}" for name, says in COMMANDS.items())
    return (
        f"Write to the agent as you would in a terminal.{works} When it needs your approval or an"
        f" answer, buttons come with it.\n\n{commands}"
    )


def _label(conversation: Mapping[str, Any]) -> str:
    title = str(conversation.get("title") or conversation.get("id"))
    return shortened(" ".join(title.split()), _LONGEST_LABEL)
