"""One widget for each row of the transcript. What a model or a tool wrote is never markup."""

from markdown_it import MarkdownIt
from rich.text import Text
from textual.widgets import Markdown, Static

from roost.chat.call_text import headline, live_output, printable, summary
from roost.chat.transcript import Row

_THOUGHT_SHOWN = 120


def _markdown() -> MarkdownIt:
    """Without HTML: what is in angle brackets is shown as it stands, instead of being left out."""
    return MarkdownIt("gfm-like", {"html": False})


class AnswerRow(Markdown):
    """The agent's words, as Markdown that grows."""

    def __init__(self, row: Row) -> None:
        self._shown = printable(row.text)
        super().__init__(self._shown, classes="answer", parser_factory=_markdown, open_links=False)

    async def show(self, row: Row) -> None:
        """Draw what has come since."""
        text = printable(row.text)
        if text.startswith(self._shown):
            if added := text[len(self._shown) :]:
                await self.append(added)
        else:
            await self.update(text)
        self._shown = text


class PlainRow(Static):
    """A row of plain text: what the person said, a notice, an error."""

    def __init__(self, row: Row) -> None:
        super().__init__(_plain(row), classes=row.kind, markup=False)

    async def show(self, row: Row) -> None:
        """Draw it as it is now."""
        self.update(_plain(row))


class FoldedRow(Static):
    """A thought or a tool call: one line, that opens with a click and shows everything."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._is_unfolded = False
        super().__init__(_folded(row, unfolded=False), classes=row.kind, markup=False)

    async def show(self, row: Row) -> None:
        """Draw it as it is now."""
        self._row = row
        self._draw()

    def unfold(self, *, unfolded: bool) -> None:
        """Show everything, or a line."""
        self._is_unfolded = unfolded
        self._draw()

    def on_click(self) -> None:
        self.unfold(unfolded=not self._is_unfolded)

    def _draw(self) -> None:
        self.update(_folded(self._row, unfolded=self._is_unfolded))


RowWidget = AnswerRow | PlainRow | FoldedRow


def widget_for(row: Row) -> RowWidget:
    """The widget that draws a row."""
    if row.kind == "answer":
        return AnswerRow(row)
    if row.kind in ("thought", "call"):
        return FoldedRow(row)
    return PlainRow(row)


def _plain(row: Row) -> Text:
    mark = {"user": "> ", "error": "✗ "}.get(row.kind, "· ")
    return Text(mark) + Text(printable(row.text))


def _folded(row: Row, *, unfolded: bool) -> Text:
    return _call(row, unfolded) if row.kind == "call" else _thought(row, unfolded)


def _thought(row: Row, unfolded: bool) -> Text:
    text = printable(row.text).strip()
    if unfolded:
        return Text(f"∴ {text}")
    words = f"thought, {len(text.split())} words"
    if row.is_open:
        words = "thinking … " + text[-_THOUGHT_SHOWN:].replace("\n", " ")
    return Text(f"∴ {words}")


def _call(row: Row, unfolded: bool) -> Text:
    """`● Bash  ls -la  → 12 lines`, and below what it prints while it runs."""
    result = row.result
    mark, style = ("●", "yellow") if result is None else ("✓", "green")
    if result is not None and not result.success:
        mark, style = "✗", "red"
    shown = Text.assemble((f"{mark} ", style), (printable(row.name), "bold"), "  ")
    shown.append(headline(row.name, row.text))
    if said := summary(row):
        shown.append(f"  → {said}", "dim")
    below = ""
    if unfolded:
        output = result.output or result.error if result else row.output
        below = f"{printable(row.text)}\n{printable(output)}".rstrip()
    elif result is None:
        below = live_output(row)
    if below:
        shown.append("\n" + "\n".join(f"  {line}" for line in below.splitlines()), "dim")
    return shown
