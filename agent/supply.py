"""The equipment of a worker's runs: waited for while it is prepared, and changed by choices.

What was chosen is in the conversation, recorded before it counts, so that it is there after a
restart. It counts from the next turn of a model on, also inside a run that goes on. What a launch
says counts as a choice when it is not what the launch before it said: a daemon that starts a worker
again says the same, and must not undo what a person chose meanwhile.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import get_args

import anyio

from agent.domain.approval import MODES
from agent.domain.entries import Choice, Chosen
from agent.domain.ports import Log, ModelFailed, Thinking
from agent.equipment import Equipment, StartFailed
from agent.recorder import Recorder

Prepare = Callable[[], Awaitable[Equipment]]
Equip = Callable[[Equipment], Equipment]
"""What the session itself adds."""


class BadChoice(ValueError):
    """There is nothing of that name to choose. The message says what there is."""


class Supply:
    """The one place where runs, panels and commands get the equipment from."""

    def __init__(
        self,
        prepare: Prepare,
        recorder: Recorder,
        log: Log,
        equip: Equip = lambda equipment: equipment,
    ) -> None:
        self._prepare = prepare
        self._equip = equip
        self._rec = recorder
        self._conversation = recorder.conversation
        self._log = log
        self._base: Equipment | None = None
        self._current: Equipment | None = None
        self._found = dict(recorder.conversation.chosen_in)
        self._applied: dict[Choice, str] | None = None
        self._prepared = anyio.Event()
        self.failure: StartFailed | None = None

    async def get_ready(self) -> None:
        """Prepare, once. Whether it failed is in `failure`."""
        try:
            self._base = self._current = self._equip(await self._prepare())
            if not self._base.is_one_task:
                self._note_launch(self._base)
        except StartFailed as exc:
            self.failure = exc
        self._prepared.set()

    @property
    def ready(self) -> Equipment | None:
        """The equipment as it is chosen now, if it is prepared."""
        base, made = self._base, self._conversation.chosen_in
        if base is not None and made != self._applied:
            self._applied = dict(made)
            chosen = dict(self._conversation.choices)
            if base.is_one_task:
                # For this task only, and until it is chosen otherwise: a plan is accepted.
                still: dict[Choice, str] = {
                    what: value
                    for what, value in base.given.items()
                    if made.get(what) == self._found.get(what)
                }
                chosen.update(still)
            self._current = self._with_choices(base, chosen)
        return self._current

    async def wait(self) -> Equipment:
        """The equipment, once it is prepared. Raises StartFailed."""
        await self._prepared.wait()
        if self.failure is not None:
            raise self.failure
        found = self.ready
        assert found is not None
        if found.is_one_task and found.servers is not None:
            await found.servers.wait_started()  # there may be one turn only, and it needs its tools
        return found

    async def choose_model(self, name: str) -> None:
        """Use this model from the next turn on. Raises StartFailed, ModelFailed, HistoryFailed."""
        (await self.wait()).models.find(name)
        await self._rec.record(Chosen(what="model", value=name))

    async def choose_mode(self, name: str) -> None:
        """Use this mode from the next turn on. Raises BadChoice, HistoryFailed."""
        if name not in MODES:
            raise BadChoice(f"mode must be one of {', '.join(MODES)}.")
        await self._rec.record(Chosen(what="mode", value=name))

    async def choose_thinking(self, level: str | None) -> None:
        """Think so much from the next turn on; None is the model's own way.

        Raises BadChoice, HistoryFailed.
        """
        if level is not None and level not in get_args(Thinking):
            raise BadChoice(f"level must be null or one of {', '.join(get_args(Thinking))}.")
        await self._rec.record(Chosen(what="thinking", value=level))

    async def set_auto_compaction(self, enabled: bool) -> None:
        """Make room by itself, or not, from the next turn on. Raises HistoryFailed."""
        await self._rec.record(Chosen(what="auto_compaction", value="on" if enabled else "off"))

    def _note_launch(self, base: Equipment) -> None:
        """Written with what is recorded next: a worker that does nothing leaves no trace."""
        for what, value in base.given.items():
            if self._conversation.launched_with.get(what) != value:
                chosen = Chosen(what=what, value=value, at_launch=True)
                self._conversation.apply(chosen)
                self._rec.begin_with(chosen)

    def _with_choices(self, base: Equipment, choices: Mapping[Choice, str | None]) -> Equipment:
        """What was chosen once and is not there any more counts as not chosen."""
        found = base
        if (name := choices.get("model")) is not None:
            try:
                found = replace(found, model=base.models.find(name), model_name=name)
            except ModelFailed as exc:
                self._log("warning", "choice_ignored", reason=str(exc))
        if (mode := MODES.get(choices.get("mode") or "")) is not None:
            found = replace(found, mode=mode)
        if (makes_room := choices.get("auto_compaction")) is not None:
            found = replace(found, auto_compaction=makes_room == "on")
        if "thinking" in choices:
            level: dict[str | None, Thinking] = {each: each for each in get_args(Thinking)}
            found = replace(found, thinking=level.get(choices["thinking"]))
        return found
