"""The commands about subagents: what their parent's people may do with them, from the parent."""

from collections.abc import Awaitable, Callable, Mapping

from agent.commands import Command, CommandFailed
from agent.domain.children import Child
from agent.domain.delegation import Refused
from agent.domain.subagents import ChildLost
from agent.subagents.delegates import Delegates, NoSuchChild

# Those that wait for more than the history: nobody else's lines wait behind them.
WAITS = ("list_agents", "subagent_input", "close_subagent")


class SubagentCommands:
    """Of one conversation."""

    def __init__(self, delegates: Delegates) -> None:
        self._delegates = delegates
        self.known: dict[str, Command] = {
            "list_agents": self._list_presets,
            "list_subagents": self._list,
            "subagent_input": self._send,
            "close_subagent": self._close,
        }

    async def _list_presets(self, _: Mapping[str, object]) -> object:
        return {
            "agents": [
                {
                    "name": preset.name,
                    "description": preset.description,
                    "scope": preset.scope,
                    "model": preset.model,
                    "tools": None if preset.tools is None else list(preset.tools),
                    "disallowedTools": list(preset.disallowed),
                }
                for preset in await self._delegates.presets()
            ]
        }

    async def _list(self, _: Mapping[str, object]) -> object:
        return {"subagents": list(self._delegates.rows().values())}

    async def _send(self, args: Mapping[str, object]) -> object:
        text = args.get("text")
        if not isinstance(text, str):
            raise CommandFailed("bad_arguments", "text must be a string that is not empty.")
        return await self._do(args, lambda name: self._delegates.send(name, text))

    async def _close(self, args: Mapping[str, object]) -> object:
        return await self._do(args, self._delegates.close)

    async def _do(
        self, args: Mapping[str, object], do: Callable[[str], Awaitable[Child]]
    ) -> object:
        name = args.get("id")
        if not isinstance(name, str):
            raise CommandFailed("bad_arguments", "id must be a thread id or a label.")
        try:
            return {"subagent": (await do(name)).row()}
        except NoSuchChild as exc:
            raise CommandFailed("unknown_subagent", str(exc)) from exc
        except Refused as exc:
            raise CommandFailed("refused", str(exc)) from exc
        except ChildLost as exc:
            raise CommandFailed("subagent_lost", str(exc)) from exc
