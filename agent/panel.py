"""The requests of a panel beside the conversation: what there is to show, and what is chosen.

Each kind of reply has a lane of its own, in which replies leave in the order of their requests:
whoever waits is told apart by order alone. Nothing here waits for a run.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from agent.choice_commands import listed_models
from agent.domain.ports import HistoryFailed, Log, ModelFailed, Project
from agent.equipment import StartFailed
from agent.supply import BadChoice, Supply

Frame = Mapping[str, object]
Reply = Mapping[str, object]

# Requests that wait for their reply; above it the reader waits too.
_MOST_WAITING = 200
_CHOICES = frozenset({"select_model", "set_mode"})
_TYPED = "(typed)"  # no frame has this type


class Panel:
    """Answers panel requests. `take` them in the order they came."""

    def __init__(
        self, project: Project, supply: Supply, write: Callable[[Reply], None], log: Log
    ) -> None:
        self._project = project
        self._supply = supply
        self._write = write
        self._log = log
        self._choosing: dict[int, anyio.Event] = {}
        self._room = anyio.Semaphore(_MOST_WAITING)
        models = deque[Frame]()
        inputs = deque[Frame]()
        self._lanes: dict[str, deque[Frame]] = {
            "list_conversations": deque(),
            "list_history": inputs,
            _TYPED: inputs,
            "list_skills": deque(),
            "list_models": models,
            "select_model": models,
            "set_mode": models,
        }
        self._answers: dict[str, Callable[[Frame], Awaitable[Sequence[Reply]]]] = {
            "list_conversations": self._list_conversations,
            "list_history": self._list_history,
            "list_skills": self._list_skills,
            "list_models": self._list_models,
            "select_model": self._select_model,
            "set_mode": self._set_mode,
        }
        self.kinds = frozenset(self._answers)
        """The requests it knows."""
        self.chosen = anyio.Event()
        """Set when the last choice that was asked for is made. Another one with each choice."""
        self.chosen.set()
        self._answers[_TYPED] = self._add_input

    async def take(self, kind: str, frame: Frame, tasks: TaskGroup) -> None:
        """Answer a request, after those before it. Waits only when far too many wait."""
        await self._room.acquire()
        lane = self._lanes[kind]
        lane.append(frame)
        if kind in _CHOICES:
            self.chosen = self._choosing[id(frame)] = anyio.Event()
        if len(lane) == 1:
            tasks.start_soon(self._serve, lane)

    async def note_input(self, text: str, tasks: TaskGroup) -> None:
        """Somebody typed this. A history that is asked for afterwards has it."""
        await self.take(_TYPED, {"type": _TYPED, "text": text}, tasks)

    async def _serve(self, lane: deque[Frame]) -> None:
        while lane:
            frame = lane[0]
            try:
                replies = await self._answers[str(frame["type"])](frame)
            except StartFailed:
                replies = ()  # the worker ends, and has said why
            for reply in replies:
                self._write(reply)
            if (chosen := self._choosing.pop(id(frame), None)) is not None:
                chosen.set()
            lane.popleft()
            self._room.release()

    async def _list_conversations(self, _: Frame) -> Sequence[Reply]:
        return [{"type": "conversations", "conversations": await self._project.conversations()}]

    async def _list_history(self, _: Frame) -> Sequence[Reply]:
        return [{"type": "history", "history": await self._project.inputs()}]

    async def _add_input(self, frame: Frame) -> Sequence[Reply]:
        await self._project.add_input(str(frame["text"]))
        return ()

    async def _list_skills(self, _: Frame) -> Sequence[Reply]:
        return [{"type": "skills", "skills": await self._project.skills()}]

    async def _list_models(self, _: Frame) -> Sequence[Reply]:
        return [await self._models()]

    async def _select_model(self, frame: Frame) -> Sequence[Reply]:
        name = frame.get("model")
        try:
            await self._supply.choose_model(name if isinstance(name, str) else "")
        except (ModelFailed, HistoryFailed) as exc:
            # The replies show what is still chosen.
            self._log("warning", "model_not_selected", reason=str(exc))
        return [await self._models(), await self._mode()]

    async def _set_mode(self, frame: Frame) -> Sequence[Reply]:
        mode = frame.get("mode")
        try:
            await self._supply.choose_mode(mode if isinstance(mode, str) else "")
        except (BadChoice, HistoryFailed) as exc:
            self._log("warning", "mode_not_set", reason=str(exc))
        return [await self._mode()]

    async def _models(self) -> Reply:
        equipment = await self._supply.wait()
        return {"type": "models", **await listed_models(equipment)}

    async def _mode(self) -> Reply:
        return {"type": "mode", "mode": (await self._supply.wait()).mode}
