"""Plans: what mode `plan` ends with, and what accepting one does.

The person accepts a plan as they approve a call. That ends the mode, in the same step in which the
decision is recorded, and the run goes on with what was planned.
"""

from typing import Annotated, cast

import msgspec
from msgspec import Meta

from agent.domain.approval import MODES, Mode
from agent.domain.questions import BadAnswer

TOOL = "ProposePlan"
_NEXT: list[Mode] = ["standard", "auto-with-judge", "auto"]

RESPONSE_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "description": "false declines; absent accepts"},
        "mode": {"enum": _NEXT, "description": "the mode to go on in; absent is standard"},
        "reason": {"type": "string", "description": "told to the model when declined"},
    },
}


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of the tool."""

    plan: Annotated[
        str, Meta(description="All of it, in Markdown: what, where, in which order.", min_length=1)
    ]


def plan_of(arguments: str) -> str:
    """The plan of a call whose arguments were checked when it was made."""
    return msgspec.json.decode(arguments, type=Plan).plan


def next_mode(payload: object) -> Mode:
    """The mode that an accepted plan is carried out in. Raises BadAnswer."""
    wanted = cast("dict[str, object]", payload).get("mode") if isinstance(payload, dict) else None
    if wanted is None:
        return "standard"
    if not isinstance(wanted, str) or wanted not in _NEXT:
        raise BadAnswer(f"An accepted plan goes on in one of the modes {', '.join(_NEXT)}.")
    return MODES[wanted]


def accepted(payload: object) -> str:
    """What the model is told of a plan that was accepted. Raises BadAnswer."""
    return f"The user accepted the plan. The mode is '{next_mode(payload)}' now: carry it out."
