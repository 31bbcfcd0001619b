"""`command` frames: a name and arguments in, exactly one result out, whatever is wrong."""

from collections.abc import Awaitable, Callable, Collection, Mapping

from agent.domain.ports import HistoryFailed
from agent.inputs import BadInput, json_object

Command = Callable[[Mapping[str, object]], Awaitable[object]]


class CommandFailed(Exception):
    """The command's result is a failure with this code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Commands:
    """The commands that a worker knows, by name. Slow ones must not keep others waiting."""

    def __init__(self, known: Mapping[str, Command], slow: Collection[str] = ()) -> None:
        self._known = known
        self.names = frozenset(known)
        self.slow = frozenset(slow)

    async def answer(self, frame: Mapping[str, object]) -> dict[str, object]:
        """The one `command_result` line of a frame."""
        result: dict[str, object] = {"type": "command_result", "id": frame.get("id")}
        try:
            return {**result, "success": True, "data": await self._run(frame)}
        except CommandFailed as exc:
            code = exc.code
            error = str(exc)
        except BadInput as exc:
            code, error = "bad_arguments", str(exc)
        except HistoryFailed as exc:
            code, error = "history", str(exc)
        return {**result, "success": False, "code": code, "error": error}

    async def _run(self, frame: Mapping[str, object]) -> object:
        name, args = frame.get("name"), json_object(frame.get("args", {}))
        command = self._known.get(name) if isinstance(name, str) else None
        if command is None:
            shown = name if isinstance(name, str) else "(no name)"
            raise CommandFailed("unknown_command", f"There is no command {shown[:80]!r}.")
        if args is None:
            raise CommandFailed("bad_arguments", "args must be an object.")
        return await command(args)
