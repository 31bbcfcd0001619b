"""What the chat's own commands do, with the connection below and a `Face` above."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from connection.port import AgentConnection
from connection.shapes import QueuedMessage, QueueMutation, SessionSummary
from roost.chat.slash import Slash, help_text

_MODES = {
    "standard": "asks before everything that changes something",
    "plan": "changes nothing, and ends with a plan",
    "auto-with-judge": "a second model decides, and asks you when in doubt",
    "auto": "never asks",
}
_LISTED = 50


class Face(Protocol):
    """What a command needs of the screen."""

    def notice(self, text: str) -> None:
        """Say something to the person."""

    async def pick(self, title: str, choices: Sequence[str]) -> int | None:
        """Let the person choose one; None when they would rather not."""
        ...

    def write(self, text: str) -> None:
        """Put a text into the composer, to be changed and sent again."""

    async def refresh_state(self) -> None:
        """Show the model and the mode that hold now."""

    def leave(self) -> None:
        """End the chat. The agent goes on."""


class Operations:
    """Carries out a Slash. Raises ConnectionFailure, and ValueError for what was typed wrong."""

    def __init__(self, connection: AgentConnection, face: Face) -> None:
        self._connection = connection
        self._face = face
        self._table: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "model": self._model,
            "mode": self._mode,
            "new": self._new,
            "resume": self._resume,
            "fork": self._fork,
            "queue": self._queue,
            "name": self._name,
            "stop": self._stop,
            "export": self._export,
            "quit": self._quit,
        }

    async def run(self, slash: Slash) -> None:
        await self._table[slash.name](slash.argument)

    async def _help(self, argument: str) -> None:
        skills = [c for c in await self._connection.get_commands() if c.source == "skill"]
        lines = [f"/{skill.name}  {skill.description}" for skill in skills]
        self._face.notice("\n".join([help_text(), *(["", "Skills:"] if lines else []), *lines]))

    async def _model(self, argument: str) -> None:
        if not argument:
            catalog = await self._connection.get_model_catalog()
            place = await self._face.pick("Model for the next turn", catalog.models)
            if place is None:
                return
            argument = catalog.models[place]
        chosen = await self._connection.set_model(argument)
        self._face.notice(f"{chosen} answers from the next turn on")
        await self._face.refresh_state()

    async def _mode(self, argument: str) -> None:
        if not argument:
            modes = list(_MODES)
            described = [f"{mode}: {what}" for mode, what in _MODES.items()]
            place = await self._face.pick("What the agent may do without asking", described)
            if place is None:
                return
            argument = modes[place]
        mode = await self._connection.set_mode(argument)
        self._face.notice(f"mode {mode}: {_MODES.get(mode, 'set')}")
        await self._face.refresh_state()

    async def _new(self, argument: str) -> None:
        await self._connection.new_session()

    async def _resume(self, argument: str) -> None:
        if not argument:
            saved = (await self._connection.list_saved_sessions())[:_LISTED]
            if not saved:
                self._face.notice("this project has no other conversations yet")
                return
            described = [_described(summary) for summary in saved]
            place = await self._face.pick("Conversations of this project", described)
            if place is None:
                return
            argument = saved[place].session_id
        await self._connection.switch_session(argument)

    async def _fork(self, argument: str) -> None:
        points = list(await self._connection.get_user_messages_for_forking())
        if not points:
            self._face.notice("there is nothing to go back to yet")
            return
        points.reverse()
        if argument:
            place: int | None = _number(argument, len(points)) - 1
        else:
            texts = [point.text.replace("\n", " ") for point in points]
            place = await self._face.pick("Fork before which of your messages?", texts)
        if place is not None:
            forked = await self._connection.fork(points[place].id)
            self._face.write(forked.selected_text)

    async def _queue(self, argument: str) -> None:
        queue = list(await self._connection.get_queue())
        verb, _, rest = argument.partition(" ")
        if not argument:
            lines = [f"{n}. {m.text}  ({m.lane})" for n, m in enumerate(queue, 1)]
            self._face.notice("\n".join(lines) or "no message waits")
            return
        number, _, text = rest.partition(" ")
        message = queue[_number(number, len(queue)) - 1]
        if verb == "delete":
            mutation = QueueMutation(kind="delete")
        elif verb == "edit" and text.strip():
            mutation = QueueMutation(kind="replace", text=text.strip())
        else:
            raise ValueError("it is /queue, /queue delete 1, or /queue edit 1 other words")
        place = [m.id for m in queue if m.lane == message.lane].index(message.id)
        outcome = await self._connection.mutate_queued_message(
            message.lane, place, message.text, mutation
        )
        self._face.notice(_OUTCOMES.get(outcome, outcome).format(text=_start(message)))

    async def _name(self, argument: str) -> None:
        if not argument:
            raise ValueError("say the name: /name the words")
        self._face.notice(f"named: {await self._connection.set_session_name(argument)}")

    async def _stop(self, argument: str) -> None:
        if not await self._connection.abort():
            self._face.notice("nothing runs")

    async def _export(self, argument: str) -> None:
        path = await self._connection.export_to_jsonl(argument or None)
        self._face.notice(f"written to {path}")

    async def _quit(self, argument: str) -> None:
        self._face.leave()


_OUTCOMES = {
    "applied": "done: {text}",
    "rejected": "another message is in that place by now; nothing was changed (/queue lists them)",
    "invalid": "that can't be done with this message; nothing was changed",
}


def _number(text: str, count: int) -> int:
    if not text.isdigit() or not 1 <= int(text) <= count:
        allowed = f"1 to {count}" if count else "nothing: the list is empty"
        raise ValueError(f"{text or 'no number'}: allowed is {allowed}")
    return int(text)


def _start(message: QueuedMessage) -> str:
    return message.text if len(message.text) <= 60 else f"{message.text[:59]}…"


def _described(summary: SessionSummary) -> str:
    title = summary.name or summary.title or summary.session_id
    when = (summary.updated_at or "")[:16].replace("T", " ")
    return "  ".join(part for part in (when, title) if part)
