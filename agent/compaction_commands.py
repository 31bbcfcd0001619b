"""The commands that make room in a long conversation, between its runs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

import anyio

from agent.commands import Command, CommandFailed
from agent.compaction import Compaction, window_of
from agent.domain.compaction import cut, read_by_model, summary_of
from agent.domain.ports import ModelFailed
from agent.equipment import StartFailed
from agent.recorder import Recorder
from agent.supply import Supply

Args = Mapping[str, object]
# A provider's package may take a second to import. Who asks for the state does not wait for that.
_QUICK = 0.1


class CompactionCommands:
    """`turn` is held meanwhile, so that no run begins; `changed` is called when it is done.

    Entering `turn` raises CommandFailed while a run goes on.
    """

    def __init__(
        self,
        recorder: Recorder,
        supply: Supply,
        new_id: Callable[[], str],
        turn: Callable[[], AbstractAsyncContextManager[None]],
        changed: Callable[[], None],
    ) -> None:
        self._rec = recorder
        self._supply = supply
        self._compaction = Compaction(recorder, new_id)
        self._turn = turn
        self._changed = changed
        self._scope: anyio.CancelScope | None = None
        self.known: dict[str, Command] = {
            "compact": self._compact,
            "abort_compaction": self._abort,
            "set_auto_compaction": self._set_auto,
        }

    @property
    def is_running(self) -> bool:
        return self._scope is not None

    def abort(self) -> bool:
        """Stop it; nothing has changed then. Was there one?"""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    async def context(self) -> dict[str, object]:
        """How full the window of the model is, as far as that can be told."""
        ready = self._supply.ready
        window: int | None = None
        if ready is not None:
            with anyio.move_on_after(_QUICK):
                window = await window_of(ready)
        return {"tokens": self._compaction.tokens(), "limit": window}

    async def _compact(self, args: Args) -> object:
        wishes = args.get("instructions", "")
        if not isinstance(wishes, str):
            raise CommandFailed("bad_arguments", "instructions must be a string.")
        async with self._turn():
            with anyio.CancelScope() as self._scope:
                try:
                    return await self._now(wishes)
                except (ModelFailed, StartFailed) as exc:
                    raise CommandFailed("compaction", str(exc)) from exc
                finally:
                    self._scope = None
        raise CommandFailed("aborted", "Stopped; the conversation is as it was.")

    async def _now(self, wishes: str) -> object:
        equipment = await self._supply.wait()
        before = read_by_model(self._rec.conversation)
        tokens = self._compaction.tokens()
        place = cut(self._rec.conversation, await window_of(equipment))
        if place is None:
            raise CommandFailed("nothing_to_compact", "There is too little to summarize.")
        compacted, _ = await self._compaction.compact(place, equipment, "manual", wishes)
        self._changed()
        return {
            "summary": summary_of(compacted.message),
            "messagesBefore": len(before),
            "messagesAfter": len(read_by_model(self._rec.conversation)),
            "tokensBefore": tokens,
            "tokensAfter": self._compaction.tokens(),
        }

    async def _abort(self, _: Args) -> object:
        return {"aborted": self.abort()}

    async def _set_auto(self, args: Args) -> object:
        enabled = args.get("enabled")
        if not isinstance(enabled, bool):
            raise CommandFailed("bad_arguments", "enabled must be true or false.")
        await self._supply.set_auto_compaction(enabled)
        return {"enabled": enabled}
