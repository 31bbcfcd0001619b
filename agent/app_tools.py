"""The tools of the application that a person writes from, as a model is told of them.

One that has the name of a tool of ours is left out: ours is meant then, with its approvals.
"""

from collections.abc import Collection

from agent.domain.approval import Effect
from agent.domain.offer import Offer
from agent.domain.ports import ToolSpec

_NO_PARAMETERS: dict[str, object] = {"type": "object", "properties": {}}


def app_tools(offer: Offer, taken: Collection[str]) -> list[ToolSpec]:
    """What is offered, without the names that are taken. Of two with one name the last counts."""
    return [
        ToolSpec(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters or _NO_PARAMETERS,
            # It is the application that acts, and asks its user if it must.
            effect=Effect.READS,
        )
        for tool in {tool.name: tool for tool in offer.tools}.values()
        if tool.name not in taken
    ]
