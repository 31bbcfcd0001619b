"""What happens to a call, as far as that needs nobody's word: its mode, and the allow list."""

import anyio.to_thread

from agent.domain.approval import Effect, Verdict, verdict
from agent.domain.ports import PreparedCall
from agent.equipment import Equipment

# A rule spares the person a question about what is done, and never one that is theirs to answer.
_ALLOWABLE = frozenset({Effect.CHANGES, Effect.RUNS, Effect.FETCHES})


async def gate(equipment: Equipment, tool: str, effect: Effect, call: PreparedCall) -> Verdict:
    """The verdict of mode and allow list. What a mode refuses, no rule allows."""
    found = verdict(equipment.mode, effect)
    if found not in (Verdict.ASK, Verdict.JUDGE) or effect not in _ALLOWABLE:
        return found
    if not equipment.allowed.has_rules_for(tool):
        return found
    subject = await anyio.to_thread.run_sync(call.subject)
    return Verdict.RUN if equipment.allowed.covers(tool, subject) else found
