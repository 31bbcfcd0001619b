"""The equipment of a worker's runs: waited for while it is prepared, and changed by choices.

A choice of model or mode counts from the next turn of a model on, also inside a run that goes on.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from agent.domain.approval import MODES
from agent.domain.ports import Thinking
from agent.equipment import Equipment, StartFailed

Prepare = Callable[[], Awaitable[Equipment]]


class Supply:
    """The one place where runs, panels and commands get the equipment from."""

    def __init__(self, prepare: Prepare) -> None:
        self._prepare = prepare
        self._equipment: Equipment | None = None
        self._prepared = anyio.Event()
        self.failure: StartFailed | None = None

    async def get_ready(self) -> None:
        """Prepare, once. Whether it failed is in `failure`."""
        try:
            self._equipment = await self._prepare()
        except StartFailed as exc:
            self.failure = exc
        self._prepared.set()

    @property
    def ready(self) -> Equipment | None:
        """The equipment, if it is prepared."""
        return self._equipment

    async def wait(self) -> Equipment:
        """The equipment, once it is prepared. Raises StartFailed."""
        await self._prepared.wait()
        if self.failure is not None:
            raise self.failure
        assert self._equipment is not None
        return self._equipment

    async def select_model(self, name: str) -> None:
        """Use this model from the next turn on. Raises StartFailed, ModelFailed."""
        equipment = await self.wait()
        model = equipment.models.find(name)
        self._equipment = replace(equipment, model=model, model_name=name)

    async def set_mode(self, name: str) -> None:
        """Use this mode from the next turn on; one that can't be used changes nothing.

        Raises StartFailed.
        """
        equipment = await self.wait()
        mode = MODES.get(name)
        if mode is None or (mode == "auto-with-judge" and not equipment.has_judge):
            return
        self._equipment = replace(equipment, mode=mode)

    async def set_thinking(self, thinking: Thinking | None) -> None:
        """Think so much from the next turn on; None is the model's own way. Raises StartFailed."""
        self._equipment = replace(await self.wait(), thinking=thinking)

    async def set_auto_compaction(self, enabled: bool) -> None:
        """Make room by itself, or not, from the next turn on. Raises StartFailed."""
        self._equipment = replace(await self.wait(), auto_compaction=enabled)
