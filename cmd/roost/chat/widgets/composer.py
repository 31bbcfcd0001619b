"""Where the person writes: several lines, what was written before, pasted text as it is."""

from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.widgets import TextArea


class Composer(TextArea):
    """Enter sends. The history is that of the conversation, and what was sent from here."""

    @dataclass
    class Sent(Message):
        """The person pressed Enter on something."""

        text: str

    class Left(Message):
        """The person pressed Ctrl+D where nothing is written."""

    def __init__(self) -> None:
        super().__init__(
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="Ask, or type / for commands",
        )
        self._history: list[str] = []
        self._place = 0
        self._draft = ""

    def remember(self, texts: list[str]) -> None:
        """What the person said before, oldest first."""
        self._history = texts
        self._place = len(texts)

    def put_aside(self) -> None:
        """Clear what is written. Up brings it back."""
        self._note(self.text)
        self.clear()

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            self._take(event)
            self._send()
        elif event.key in ("ctrl+j", "shift+enter", "alt+enter"):
            self._take(event)
            self.insert("\n")
        elif event.key == "ctrl+d" and not self.text:
            self._take(event)
            self.post_message(self.Left())
        elif event.key == "up" and self.cursor_at_first_line:
            self._take(event)
            self._recall(-1)
        elif event.key == "down" and self.cursor_at_last_line:
            self._take(event)
            self._recall(+1)
        else:
            await super()._on_key(event)

    def _take(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()

    def _send(self) -> None:
        text = self.text.strip()
        if not text:
            return
        self._note(text)
        self.clear()
        self.post_message(self.Sent(text))

    def _note(self, text: str) -> None:
        if text.strip() and (not self._history or self._history[-1] != text):
            self._history.append(text)
        self._place = len(self._history)
        self._draft = ""

    def _recall(self, step: int) -> None:
        place = self._place + step
        if not 0 <= place <= len(self._history):
            return
        if self._place == len(self._history):
            self._draft = self.text
        self._place = place
        self.load_text(self._draft if place == len(self._history) else self._history[place])
        self.move_cursor(self.document.end)
