"""One of several, chosen with the arrow keys."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static


class Picker(ModalScreen[int | None]):
    """Ends with the place of what was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss_nothing", show=False)]

    def __init__(self, title: str, choices: Sequence[str]) -> None:
        super().__init__()
        self._title = title
        self._choices = choices

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Static(self._title, markup=False)
            yield OptionList(*[Text(choice) for choice in self._choices], markup=False)
            yield Static(Text("[Enter] choose   [Esc] leave it", "dim"), markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_dismiss_nothing(self) -> None:
        self.dismiss(None)
