"""A stop, in whatever a run is doing: the run ends as cancelled, closed in order, at once.

What people said meanwhile has its turn afterwards; a shell command of theirs is then a run of its
own, once.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio
import anyio.lowlevel

from agent.domain.approval import Mode
from agent.domain.ports import (
    ArgumentsPiece,
    CallBegan,
    Piece,
    ReasoningPiece,
    ResponseDone,
    Retrying,
    TextPiece,
)
from agent.equipment import Equipment
from tests.agent.support.fakes import DONE, FakeModel, FakeTool, Line
from tests.agent.support.scene import Scene, calls, one_session, says
from tests.support.judge import Recording, judged

CALL = calls(("c-1", "Do", "x"))
LONG = ResponseDone(provider="fake", model="one", input_tokens=99, output_tokens=1)


class Phase:
    """Where a run stands still: before the piece of that number, in a tool, or in the judge."""

    def __init__(self, *pieces: Piece, mode: Mode = "auto", halts: str = "model") -> None:
        self.pieces = pieces
        self.mode: Mode = mode
        self.halts = halts


PHASES = {
    "before the first token": Phase(),
    "in the text": Phase(TextPiece("half")),
    "in what it thinks": Phase(ReasoningPiece("hm")),
    "in the arguments of a call": Phase(CallBegan(0, "c-1", "Do"), ArgumentsPiece(0, '{"wh')),
    "in the arguments of a second call": Phase(
        *CALL[:-1], CallBegan(1, "c-2", "Look"), ArgumentsPiece(1, "{")
    ),
    "while a request waits to be sent again": Phase(Retrying(1, 5.0, "busy")),
    "while a tool runs": Phase(*CALL, halts="tool"),
    "while the judge thinks": Phase(*CALL, halts="judge", mode="auto-with-judge"),
    "while it makes room": Phase(halts="compaction"),
}


class Halt:
    """Stands still for ever where it is reached, and tells it; let through when it is off."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.is_on = True

    async def __call__(self) -> None:
        if not self.is_on:
            return await anyio.lowlevel.checkpoint()
        self.reached.set()
        return await anyio.sleep_forever()


def after(count: int, halt: Halt) -> Callable[[], Awaitable[None]]:
    """Let so many pieces through, and halt at the next."""
    left = count

    async def wait() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            await halt()
        await anyio.lowlevel.checkpoint()

    return wait


async def halted(scene: Scene, phase: Phase, halt: Halt) -> int:
    """Begin a run and wait until it stands still; where its lines begin."""
    if phase.halts == "compaction":
        for number in (1, 2):
            await scene.turn(f"turn {number}", f"m-{number}")
    start = len(scene.lines.lines)
    if phase.halts in ("model", "compaction"):
        scene.model.before_piece = after(len(phase.pieces), halt)
    await scene.ask("go", "m-go")
    with anyio.fail_after(60):
        await halt.reached.wait()
    await anyio.wait_all_tasks_blocked()
    return start


async def test_a_stop_ends_a_run_in_every_phase_and_what_waits_has_its_turn() -> None:
    judge({name: await stopped(phase) for name, phase in PHASES.items()})


async def stopped(phase: Phase) -> list[Line]:
    """Stop a run in that phase, with a shell command waiting; all lines of it and of the next."""
    halt = Halt()
    first: list[Sequence[Piece]] = [[TextPiece("a"), LONG], [TextPiece("b"), LONG]]
    if phase.halts != "compaction":
        first = []
    # Without a verdict, what is judged is asked for: a person's own command, too.
    judge_model = FakeModel([[DONE], [DONE]])
    if phase.halts == "judge":
        judge_model.before_piece = halt
    tool = FakeTool(work=halt) if phase.halts == "tool" else FakeTool()

    def equip(equipment: Equipment) -> Equipment:
        window = 100 if phase.halts == "compaction" else None
        return replace(equipment, judge=judge_model, context_window=window)

    ran: list[str] = []
    async with one_session(
        *first, [*phase.pieces], says("next"), mode=phase.mode, tool=tool, equip=equip
    ) as scene:
        scene.add_tool(FakeTool("Bash", key="command", ran=ran))
        start = await halted(scene, phase, halt)
        await scene.ask("!echo hi", "m-shell", forwardedProps={"roost.lane": "follow_up"})
        halt.is_on = False
        scene.model.before_piece = anyio.lowlevel.checkpoint
        await scene.send(type="interrupt")
        await scene.send(type="interrupt")
        ended = await scene.wait_end(start)
        assert ended["outcome"] == {"type": "cancelled"}, phase
        await anyio.wait_all_tasks_blocked()
        asks = phase.mode == "auto-with-judge"
        assert len(ends(scene.lines.lines[start:])) == 2, phase
        assert ran == ([] if asks else ["echo hi"]), phase
        assert scene.tool.ran == (["x"] if phase.halts == "tool" else []), phase
        assert not scene.session.conversation.queue
        waits = [each.id for each in scene.session.conversation.interrupts()]
        assert [each.call.id for each in scene.session.conversation.unanswered()] == waits, phase
        assert not scene.session.conversation.shared_state().get("retry")
        # The conversation goes on.
        start = len(scene.lines.lines)
        if asks:
            await scene.answer(status="cancelled", **{waits[0].replace("-", "_"): None})
            await scene.wait_end(start)
        else:
            await scene.turn("and now", "m-now")
        return scene.lines.lines


def ends(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["type"] in ("RUN_FINISHED", "RUN_ERROR")]


def judge(runs: dict[str, list[Line]]) -> None:
    nothing: Line = {"type": "MESSAGES_SNAPSHOT", "messages": []}
    judged(*(Recording.of(name, [nothing, *lines]) for name, lines in runs.items()))
