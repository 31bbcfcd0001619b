"""A step of the tour: two subagents at once, one of which asks a person at its own thread."""

from typing import Any, Protocol

from roost.demo.client import Event, TourClient, connected
from roost.demo.daemon import TourDaemon

_PARENT = "team"
_READS = "read notes.txt"
_ASKS = "run wc -l < notes.txt"


class Guide(Protocol):
    """Who tells the person at the terminal what goes on, and stops at what is not as promised."""

    def says(self, what: str) -> None: ...

    def checked(self, what: str) -> None: ...

    def expect(self, holds: bool, what: str) -> None: ...


async def show_subagents(daemon: TourDaemon, project: str, guide: Guide) -> None:
    """Delegate, watch from the parent, answer at the child, and end all of it."""
    guide.says("The agent gives two tasks to subagents, which work at the same time")
    async with (
        connected("the desktop", daemon.port, daemon.token) as desktop,
        connected("the phone", daemon.port, daemon.token) as phone,
    ):
        await desktop.open(project, _PARENT)
        mark = await desktop.say(f"delegate {_READS} | {_ASKS}", "m-delegate")
        waiting = await _row(desktop, mark, _ASKS, "waiting")
        await _note(desktop, mark, f"[Subagent Completed: {_READS}]")
        guide.checked("one has read the file: its result is a note in the parent's conversation")
        asks = waiting["interrupts"]
        guide.checked(f"the other waits, and the parent lists it: {asks[0]['message']}")
        threads = {t["conversation_id"]: t["parent"] for t in await daemon.threads()}
        guide.expect(threads[waiting["threadId"]] == _PARENT, "the daemon knows whose it is")
        await phone.open(project, waiting["threadId"])
        await phone.answer(asks[0]["id"], "resolved")
        result = await phone.until("TOOL_CALL_RESULT", since=0)
        guide.expect("2" in result["content"], "wc counted the real file")
        await _note(desktop, mark, f"[Subagent Completed: {_ASKS}]")
        guide.checked("the phone approved at the subagent's own thread; the parent has its result")
        stop = {"type": "stop_thread", "project_dir": project, "id": _PARENT}
        await desktop.send(**stop, subagents=True)
    team = [thread for thread, parent in threads.items() if _PARENT in (thread, parent)]
    await daemon.until_no_worker(team)
    guide.checked("the parent is stopped with all that is below it: none of them runs any more")


async def _row(client: TourClient, since: int, label: str, status: str) -> Any:
    """What the parent's state says of a child, once it has this status."""
    found: list[Any] = []

    def has_it(event: Event) -> bool:
        found[:] = [row for row in _rows(event) if (row["label"], row["status"]) == (label, status)]
        return bool(found)

    await client.until("STATE_DELTA", since=since, where=has_it)
    return found[0]


def _rows(event: Event) -> list[Any]:
    rows: list[Any] = []
    for step in event["delta"]:
        if step["path"] == "/subagents":
            rows += step["value"].values()
        elif step["path"].startswith("/subagents/"):
            rows.append(step["value"])
    return rows


async def _note(client: TourClient, since: int, note: str) -> None:
    """A note begins a run of its own, or joins the one that goes on."""

    def tells(event: Event) -> bool:
        if event["type"] == "RUN_STARTED":
            messages = event.get("input", {}).get("messages", [])
            return any(note in message["content"] for message in messages)
        return note in event["delta"]

    await client.until(("RUN_STARTED", "TEXT_MESSAGE_CONTENT"), since=since, where=tells)
