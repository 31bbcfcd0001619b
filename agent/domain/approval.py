"""Which calls run, which ask first and which are refused: one table of mode and effect.

It knows what a tool does only as one word. Whether a path is inside the sandbox is the tool's own
business; who answers a question is the run's.
"""

from enum import Enum
from typing import Literal

Mode = Literal["standard", "plan", "auto", "auto-with-judge"]
MODES: dict[str, Mode] = {
    "standard": "standard",
    "plan": "plan",
    "auto": "auto",
    "auto-with-judge": "auto-with-judge",
}


class Effect(Enum):
    """What running a tool may do."""

    READS = "reads"
    NOTES = "notes"
    """Changes only what the conversation itself keeps, such as the list of todos."""
    CHANGES = "changes"
    RUNS = "runs"
    """Runs a program, which may do anything."""
    FETCHES = "fetches"
    """Reads from the internet, which learns what is asked for."""
    DELEGATES = "delegates"
    """Opens or steers subagents, which ask for themselves."""
    ASKS = "asks"
    """Asks the person: the answer is its result, in every mode."""
    PLANS = "plans"
    """Shows the person a plan; accepting it ends the mode `plan`. Only offered in that mode."""


class Verdict(Enum):
    RUN = "run"
    ASK = "ask"
    JUDGE = "judge"
    """Ask a second model; what it does not allow, the person is asked for."""
    REFUSE = "refuse"


PLAN_REFUSAL = (
    "Not run: the mode is 'plan', in which nothing is changed and no program is run."
    " Read what you need, and then call ProposePlan with what you would do."
)

PLAN_NOTE = (
    "The mode is 'plan': nothing is changed and no program is run. Read what you need, then call"
    " ProposePlan; when the user accepts it, carry it out."
)

AUTO_NOTICE = "Mode auto: commands run and files change without asking you first."

_VERDICTS: dict[Mode, dict[Effect, Verdict]] = {
    "standard": {
        Effect.READS: Verdict.RUN,
        Effect.NOTES: Verdict.RUN,
        Effect.CHANGES: Verdict.ASK,
        Effect.RUNS: Verdict.ASK,
        Effect.FETCHES: Verdict.ASK,
        Effect.DELEGATES: Verdict.RUN,
        Effect.ASKS: Verdict.ASK,
        Effect.PLANS: Verdict.RUN,
    },
    "plan": {
        Effect.READS: Verdict.RUN,
        Effect.NOTES: Verdict.RUN,
        Effect.CHANGES: Verdict.REFUSE,
        Effect.RUNS: Verdict.REFUSE,
        Effect.FETCHES: Verdict.ASK,
        Effect.DELEGATES: Verdict.RUN,
        Effect.ASKS: Verdict.ASK,
        Effect.PLANS: Verdict.ASK,
    },
    "auto": {
        Effect.READS: Verdict.RUN,
        Effect.NOTES: Verdict.RUN,
        Effect.CHANGES: Verdict.RUN,
        Effect.RUNS: Verdict.RUN,
        Effect.FETCHES: Verdict.RUN,
        Effect.DELEGATES: Verdict.RUN,
        Effect.ASKS: Verdict.ASK,
        Effect.PLANS: Verdict.RUN,
    },
    "auto-with-judge": {
        Effect.READS: Verdict.RUN,
        Effect.NOTES: Verdict.RUN,
        Effect.CHANGES: Verdict.JUDGE,
        Effect.RUNS: Verdict.JUDGE,
        Effect.FETCHES: Verdict.JUDGE,
        Effect.DELEGATES: Verdict.RUN,
        Effect.ASKS: Verdict.ASK,
        Effect.PLANS: Verdict.RUN,
    },
}


def verdict(mode: Mode, effect: Effect) -> Verdict:
    """What happens to a call with that effect in that mode."""
    return _VERDICTS[mode][effect]
