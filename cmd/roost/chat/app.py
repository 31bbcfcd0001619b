"""The chat on the screen: events of the connection in, rows out; keys in, operations out.

It never waits in a handler of an event: what asks the connection runs beside the screen, and says
what went wrong as a row.
"""

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from connection.events import (
    Closed,
    ConnectionEvent,
    ConnectionStatus,
    SessionEvent,
    SessionReplaced,
    SessionResynced,
    SessionStatus,
)
from connection.failures import ConnectionFailure
from connection.port import AgentConnection
from connection.shapes import SessionState, Snapshot, WorkerState
from roost.chat.call_text import printable
from roost.chat.doing import doing
from roost.chat.operations import Operations
from roost.chat.slash import parse
from roost.chat.transcript import Transcript
from roost.chat.widgets.composer import Composer
from roost.chat.widgets.decision_panel import DecisionPanel
from roost.chat.widgets.picker import Picker
from roost.chat.widgets.rows import FoldedRow, RowWidget, widget_for
from roost.chat.widgets.status_line import Status, StatusLine, usage_of

# Words come faster than a terminal draws well; what came meanwhile is drawn at once.
_DRAW_AFTER = 0.03
# Widgets cost more than rows: older rows are drawn when somebody scrolls there.
_ROWS_SHOWN = 200


@dataclass
class Told(Message):
    """The connection told us of something. As a message it is handled in the screen's own task."""

    event: ConnectionEvent


class ChatApp(App[int]):
    """One conversation at a time, over any AgentConnection."""

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "chat.tcss"
    TITLE = "roost"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (12, "-tall")]  # noqa: RUF012  (the library's own type)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", show=False),
        Binding("ctrl+c", "clear_or_quit", "Quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("ctrl+o", "unfold", "Unfold", show=False, priority=True),
        Binding("pageup", "scroll_up", show=False, priority=True),
        Binding("pagedown", "scroll_down", show=False, priority=True),
    ]

    def __init__(self, connection: AgentConnection) -> None:
        super().__init__()
        self._connection = connection
        self._operations = Operations(connection, self)
        self._transcript = Transcript()
        self._snapshot: Snapshot | None = None
        self._early: list[SessionEvent] = []
        self._worker = WorkerState()
        self._followers = 0
        self._answered_by: str | None = None
        self._earlier_left = 0
        self._shown_from = 0
        self._widgets: dict[str, RowWidget] = {}
        self._is_drawing = False
        self._is_unfolded = False
        self._is_answering = False
        self._asked: tuple[object, ...] = ()
        self._lost: str | None = None
        self._goodbye: str | None = None

    def compose(self) -> ComposeResult:
        yield VerticalScroll(id="transcript")
        yield Static(id="doing", markup=False)
        yield DecisionPanel()
        yield Composer()
        yield StatusLine()

    def on_mount(self) -> None:
        self.query_one("#doing").display = False
        self.query_one("#transcript", VerticalScroll).can_focus = False
        self.query_one("#transcript", VerticalScroll).anchor()
        self.query_one(Composer).focus()
        self._unsubscribe = self._connection.subscribe(self._hear)
        self._beside(self._begin())

    def on_unmount(self) -> None:
        self._unsubscribe()

    async def _begin(self) -> None:
        self._show(await self._connection.get_initial_snapshot())
        await self.refresh_state()
        if self._worker.model is None:
            # A worker that has just started knows its model a little later: this waits for it.
            with suppress(ConnectionFailure):
                await self._connection.get_model_catalog()
                await self.refresh_state()

    @property
    def farewell(self) -> str | None:
        """What is left in the terminal: how to come back. None when nothing was said."""
        if self._snapshot is None or not self._transcript.said_by_user():
            return None
        goes_on = "The agent goes on. " if self._transcript.run_id is not None else ""
        return (
            f"{goes_on}Come back with: roost chat --resume {self._snapshot.state.active_session_id}"
        )

    # What the connection tells

    def _hear(self, event: ConnectionEvent) -> None:
        self.post_message(Told(event))

    @on(Told)
    def _told(self, message: Told) -> None:
        match message.event:
            case SessionEvent() as event:
                self._take(event)
            case SessionReplaced(snapshot):
                self._show(snapshot)
            case SessionResynced(snapshot, _):
                if snapshot is not None:
                    self._show(snapshot)
            case SessionStatus(state):
                self._know(state)
            case ConnectionStatus("reconnecting", error):
                self._lost = error or "the connection was lost"
            case ConnectionStatus():
                self._lost = None
            case Closed(_, words):
                self._goodbye = words
                self._transcript.notice(words, "error")
            case _:
                return
        self._draw_soon()

    def _take(self, event: SessionEvent) -> None:
        if self._snapshot is None:
            self._early.append(event)
        elif not self._snapshot.covers(event.cursor):
            was_running = self._transcript.run_id is not None
            self._transcript.feed(event.event)
            if self._worker.model is None and self._transcript.run_id and not was_running:
                # A worker knows its model from its first run on.
                self._beside(self.refresh_state())

    def _show(self, snapshot: Snapshot) -> None:
        """Show this, whatever was shown before; what is being typed stays."""
        self._snapshot = snapshot
        self._know(snapshot.state)
        worker = snapshot.state.worker
        self._transcript.show(
            [bytes(message) for message in snapshot.messages],
            snapshot.events,
            # Between runs no event says it.
            worker.state if worker is not None else None,
        )
        if not self._transcript.rows:
            where = printable(snapshot.state.project_dir)
            self._transcript.notice(f"a new conversation in {where}; /help says what can be typed")
        self._earlier_left = snapshot.window.first if snapshot.window else 0
        early, self._early = self._early, []
        for event in early:
            self._take(event)
        self._shown_from = max(0, len(self._transcript.rows) - _ROWS_SHOWN)
        self.query_one(Composer).remember(self._transcript.said_by_user())
        self._draw_soon()

    def _know(self, state: SessionState) -> None:
        """What the last one did not say still holds."""
        self._followers = state.followers
        self._answered_by = state.answered_by
        if state.worker is not None:
            self._worker = state.worker

    # What the person does

    @on(Composer.Sent)
    def _sent(self, event: Composer.Sent) -> None:
        slash = parse(event.text)
        if slash is not None:
            self._beside(self._operations.run(slash))
        else:
            self._beside(self._prompt(event.text))

    async def _prompt(self, text: str) -> None:
        try:
            await self._connection.prompt(text)
        except (ConnectionFailure, ValueError):
            # Nobody should have to type it again.
            self.write(text)
            raise
        self.query_one("#transcript", VerticalScroll).anchor()

    @on(DecisionPanel.Decided)
    def _decided(self, event: DecisionPanel.Decided) -> None:
        self._is_answering = True
        self.query_one(Composer).focus()
        self._beside(self._answer(event))

    async def _answer(self, event: DecisionPanel.Decided) -> None:
        try:
            await self._connection.answer(event.answers)
        except ConnectionFailure:
            self._asked = ()
            raise
        finally:
            self._is_answering = False
            self._draw_soon()

    def action_stop(self) -> None:
        if self._transcript.run_id is not None:
            self._beside(self._abort())

    async def _abort(self) -> None:
        await self._connection.abort()

    def action_clear_or_quit(self) -> None:
        composer = self.query_one(Composer)
        if composer.text:
            composer.put_aside()
        else:
            self.leave()

    @on(Composer.Left)
    def _left(self) -> None:
        self.leave()

    def action_unfold(self) -> None:
        self._is_unfolded = not self._is_unfolded
        for widget in self._widgets.values():
            if isinstance(widget, FoldedRow):
                widget.unfold(unfolded=self._is_unfolded)

    def action_scroll_up(self) -> None:
        view = self.query_one("#transcript", VerticalScroll)
        if view.scroll_y > 0:
            view.scroll_page_up(animate=False)
        else:
            self._beside(self._fetch_earlier())

    def action_scroll_down(self) -> None:
        view = self.query_one("#transcript", VerticalScroll)
        view.scroll_page_down(animate=False)

    async def _fetch_earlier(self) -> None:
        if self._shown_from > 0:
            self._shown_from = max(0, self._shown_from - _ROWS_SHOWN)
        elif self._earlier_left > 0:
            page = await self._connection.get_earlier_messages(self._earlier_left)
            self._earlier_left = page.first
            self._transcript.earlier(bytes(message) for message in page.messages)
        else:
            return
        await self._draw_everything()

    # The face that operations talk to

    def notice(self, text: str) -> None:
        self._transcript.notice(text)
        self._draw_soon()

    async def pick(self, title: str, choices: Sequence[str]) -> int | None:
        return await self.push_screen_wait(Picker(title, [printable(c) for c in choices]))

    def write(self, text: str) -> None:
        composer = self.query_one(Composer)
        if not composer.text:
            composer.load_text(text)
            composer.move_cursor(composer.document.end)

    async def refresh_state(self) -> None:
        self._know(await self._connection.get_state())
        self._draw_soon()

    def leave(self) -> None:
        self.exit(0)

    # Drawing

    def _draw_soon(self) -> None:
        if not self._is_drawing:
            self._is_drawing = True
            self.set_timer(_DRAW_AFTER, self._draw)

    async def _draw(self) -> None:
        self._is_drawing = False
        changes = self._transcript.take_changes()
        if changes.everything:
            await self._draw_everything()
        else:
            await self._draw_rows(changes.rows)
        self._draw_decisions()
        self._draw_doing()
        self.query_one(StatusLine).show(self._status())

    async def _draw_everything(self) -> None:
        self._transcript.take_changes()
        view = self.query_one("#transcript", VerticalScroll)
        await view.remove_children()
        rows = list(self._transcript.rows.values())[self._shown_from :]
        rows = [row for row in rows if row.text or row.kind != "answer"]
        self._widgets = {row.id: widget_for(row) for row in rows}
        await view.mount_all(self._widgets.values())

    async def _draw_rows(self, row_ids: Sequence[str]) -> None:
        view = self.query_one("#transcript", VerticalScroll)
        for row_id in row_ids:
            row = self._transcript.rows.get(row_id)
            if row is None or (row.kind == "answer" and not row.text):
                continue
            if (widget := self._widgets.get(row_id)) is not None:
                await widget.show(row)
            else:
                self._widgets[row_id] = widget_for(row)
                await view.mount(self._widgets[row_id])

    def _draw_decisions(self) -> None:
        decisions = self._transcript.decisions
        if decisions == self._asked or self._is_answering:
            return
        panel = self.query_one(DecisionPanel)
        if not decisions and panel.is_deciding:
            self.notice(f"this was answered in {self._answered_by or 'another program'}")
            self.query_one(Composer).focus()
        self._asked = decisions
        panel.ask(decisions, take_focus=not self.query_one(Composer).text)

    def _draw_doing(self) -> None:
        """The agent's plan while it is not done, and its subagents while they live."""
        lines = doing(self._transcript.state)
        shown = self.query_one("#doing", Static)
        shown.display = bool(lines)
        shown.update("\n".join(lines))

    def _status(self) -> Status:
        transcript = self._transcript
        tokens, cost = usage_of(transcript.state)
        return Status(
            activity=self._activity(),
            model=self._worker.model or "",
            mode=self._worker.mode or "",
            queued=len(transcript.state.get("queue") or ()),
            followers=self._followers,
            tokens=tokens,
            cost=cost,
        )

    def _activity(self) -> str:
        if self._goodbye is not None:
            return "closed"
        if self._lost is not None:
            return f"reconnecting … ({self._lost}; what you type is kept)"
        if self._snapshot is None:
            return "opening …"
        if self._transcript.decisions:
            return "waiting for you"
        if self._transcript.run_id is not None:
            retry = self._transcript.state.get("retry")
            return f"running: {retry.get('reason')}, tries again" if retry else "running"
        return "ready"

    # What asks the connection

    def _beside(self, work: Coroutine[object, object, None]) -> None:
        self.run_worker(self._guarded(work), exit_on_error=True)

    async def _guarded(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except (ConnectionFailure, ValueError) as exc:
            self._transcript.notice(str(exc), "error")
            self._draw_soon()
