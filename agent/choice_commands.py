"""The commands that choose how the agent works: its model, its mode, how much it thinks."""

from collections.abc import Mapping

from agent.commands import Command, CommandFailed
from agent.domain.approval import AUTO_NOTICE
from agent.domain.ports import ModelFailed
from agent.equipment import Equipment, StartFailed
from agent.supply import BadChoice, Supply


async def listed_models(equipment: Equipment) -> dict[str, object]:
    """The models to choose from, the default first, and the one that is chosen."""
    names = [*await equipment.models.names(), equipment.model_name]
    return {"models": list(dict.fromkeys(names)), "current": equipment.model_name}


class ChoiceCommands:
    """Each choice is recorded when it is answered, and counts from the model's next turn on."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self.known: dict[str, Command] = {
            "list_models": self._list_models,
            "set_model": self._set_model,
            "set_mode": self._set_mode,
            "set_thinking": self._set_thinking,
        }

    async def _list_models(self, _: Mapping[str, object]) -> object:
        return await listed_models(await self._equipment())

    async def _set_model(self, args: Mapping[str, object]) -> object:
        name = args.get("model")
        await self._equipment()
        try:
            await self._supply.choose_model(name if isinstance(name, str) else "")
        except ModelFailed as exc:
            raise CommandFailed("bad_arguments", str(exc)) from exc
        return {"model": name}

    async def _set_mode(self, args: Mapping[str, object]) -> object:
        mode = args.get("mode")
        try:
            await self._supply.choose_mode(mode if isinstance(mode, str) else "")
        except BadChoice as exc:
            raise CommandFailed("bad_arguments", str(exc)) from exc
        return {"mode": mode, "notice": AUTO_NOTICE if mode == "auto" else None}

    async def _set_thinking(self, args: Mapping[str, object]) -> object:
        level = args.get("level")
        try:
            await self._supply.choose_thinking(
                level if level is None or isinstance(level, str) else ""
            )
        except BadChoice as exc:
            raise CommandFailed("bad_arguments", str(exc)) from exc
        return {"level": level}

    async def _equipment(self) -> Equipment:
        try:
            return await self._supply.wait()
        except StartFailed as exc:  # the worker ends, and says why
            raise CommandFailed("settings", str(exc)) from exc
