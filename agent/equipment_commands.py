"""The commands that tell what the agent works with. They wait for it to be prepared."""

from collections.abc import Mapping

from agent.commands import Command, CommandFailed
from agent.domain.ports import ToolSpec
from agent.equipment import Equipment, StartFailed
from agent.supply import Supply

Args = Mapping[str, object]


class EquipmentCommands:
    """Tools and instructions, as data: nothing here runs."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self.known: dict[str, Command] = {
            "get_system_prompt": self._get_system_prompt,
            "get_commands": self._get_commands,
            "get_tools": self._get_tools,
            "get_tool_definition": self._get_tool_definition,
        }

    async def _get_system_prompt(self, _: Args) -> object:
        return {"text": (await self._equipment()).instructions}

    async def _get_commands(self, _: Args) -> object:
        skills = (await self._equipment()).skills.values()
        rows = [{"name": s.name, "description": s.description, "source": "skill"} for s in skills]
        return {"commands": rows}

    async def _get_tools(self, _: Args) -> object:
        tools = (await self._equipment()).offered().values()
        return {"tools": [_definition(tool.spec) for tool in tools]}

    async def _get_tool_definition(self, args: Args) -> object:
        tool = (await self._equipment()).find(str(args.get("name")))
        if tool is None:
            raise CommandFailed("unknown_tool", "There is no tool of this name.")
        return _definition(tool.spec)

    async def _equipment(self) -> Equipment:
        try:
            return await self._supply.wait()
        except StartFailed as exc:
            raise CommandFailed("settings", str(exc)) from exc


def _definition(spec: ToolSpec) -> dict[str, object]:
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "effect": spec.effect.value,
    }
