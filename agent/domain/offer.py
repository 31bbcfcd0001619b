"""What an application offers with a run input: its own tools, and what the model should know of it.

The application runs its tools itself: a call of one ends the run, unanswered, and the next input
brings the result.
"""

from collections.abc import Mapping

import msgspec

# How much of an application's words a model is shown.
MOST_SHOWN = 32_768
# Members of `forwardedProps` that are for us, and not for the model.
_OUR_PROPS = ("roost.", "project_dir")


class AppTool(msgspec.Struct, frozen=True):
    """A tool that the application runs."""

    name: str
    description: str = ""
    parameters: dict[str, object] = {}


class AppContext(msgspec.Struct, frozen=True):
    """Something that the application knows."""

    description: str
    value: str


class Offer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it, as it came. On disk with the messages that it came with."""

    tools: list[AppTool] = []
    context: list[AppContext] = []
    state: dict[str, object] = {}
    """The members of the shared state that are the application's own."""
    props: dict[str, object] = {}

    def words(self) -> str:
        """What a model is told besides; empty when there is nothing to tell."""
        parts = [f"{item.description}: {item.value}" for item in self.context]
        if self.state:
            parts.append(f"Its state: {_text(self.state)}")
        if self.props:
            parts.append(f"Its properties: {_text(self.props)}")
        if not parts:
            return ""
        told = "\n".join(["The application that the user writes from says:", *parts])
        return told if len(told) <= MOST_SHOWN else f"{told[:MOST_SHOWN]} ... (cut)"


NOTHING = Offer()


def props_of(forwarded: Mapping[str, object]) -> dict[str, object]:
    """What of `forwardedProps` is for the model."""
    return {key: value for key, value in forwarded.items() if not key.startswith(_OUR_PROPS)}


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
