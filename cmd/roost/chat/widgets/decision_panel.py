"""What waits for the person, above the composer: approvals and questions, one at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList, SelectionList, Static
from textual.widgets.selection_list import Selection

from connection.shapes import Answer
from roost.chat.call_text import in_full, unhidden
from roost.chat.decisions import Deciding, Decision, Question

_KEYS = "[y] approve   [n] decline   [a] approve all that wait   [r] decline, and say why"
_OWN_WORDS = "… in my own words"


class DecisionPanel(Vertical, can_focus=True):
    """Empty and hidden while nothing waits. Posts `Decided` when all decisions are made."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "approve", show=False),
        Binding("n", "decline", show=False),
        Binding("a", "approve_all", show=False),
        Binding("r", "decline_with_words", show=False),
        Binding("escape", "dismiss", show=False),
    ]

    @dataclass
    class Decided(Message):
        """Everything that waited was decided."""

        answers: list[Answer]

    def __init__(self) -> None:
        super().__init__()
        self._deciding: Deciding | None = None
        self._takes_focus = True

    def compose(self) -> ComposeResult:
        yield Static(id="what", markup=False)
        yield VerticalScroll(Static(id="full", markup=False), id="full-scroll")
        yield OptionList(id="one", markup=False)
        yield SelectionList[str](id="several")
        yield Input(id="words")
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        self.display = False

    @property
    def is_deciding(self) -> bool:
        """Something waits for the person here."""
        return self._deciding is not None

    def ask(self, decisions: Sequence[Decision], *, take_focus: bool = True) -> None:
        """Show what waits; nothing hides the panel.

        Without the focus no key decides: who is just writing must not approve with a letter.
        """
        self._takes_focus = take_focus
        self._deciding = Deciding(tuple(decisions)) if decisions else None
        self._draw()

    # What the person does

    def on_descendant_focus(self) -> None:
        self._come_here()

    def on_focus(self) -> None:
        self._come_here()

    def _come_here(self) -> None:
        if not self._takes_focus:
            self._takes_focus = True
            self._draw()

    def action_approve(self) -> None:
        self._approve(all_left=False)

    def action_approve_all(self) -> None:
        self._approve(all_left=True)

    def action_decline(self) -> None:
        if self._waits_for_approval():
            self._decline("")

    def action_decline_with_words(self) -> None:
        if self._waits_for_approval():
            self._ask_for_words("Why not? The agent reads it.")

    def action_dismiss(self) -> None:
        if self._deciding is not None and self._deciding.question is not None:
            self._decline("")

    @on(OptionList.OptionSelected, "#one")
    def _one_chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        question = self._question
        if question is None:
            return
        if event.option_index >= len(question.options):
            self._ask_for_words(question.text)
        else:
            self._reply([question.options[event.option_index][0]], "")

    @on(Input.Submitted, "#words")
    def _words_written(self, event: Input.Submitted) -> None:
        event.stop()
        words = event.value.strip()
        question = self._question
        if question is None:
            self._decline(words)
        elif question.allows_several and question.options:
            chosen = self._several.selected
            if chosen or words:
                self._reply(list(chosen), words)
        elif words:
            self._reply([], words)

    # Smaller steps

    @property
    def _question(self) -> Question | None:
        return self._deciding.question if self._deciding else None

    @property
    def _several(self) -> SelectionList[str]:
        return cast(SelectionList[str], self.query_one("#several"))

    def _waits_for_approval(self) -> bool:
        deciding = self._deciding
        return deciding is not None and deciding.current is not None and self._question is None

    def _approve(self, *, all_left: bool) -> None:
        if self._deciding is not None and self._waits_for_approval():
            self._deciding.approve(all_left=all_left)
            self._draw()

    def _decline(self, reason: str) -> None:
        if self._deciding is not None:
            self._deciding.decline(reason)
            self._draw()

    def _reply(self, chosen: Sequence[str], words: str) -> None:
        if self._deciding is not None:
            self._deciding.reply(chosen, words)
            self._draw()

    def _draw(self) -> None:
        deciding = self._deciding
        if deciding is not None and (answers := deciding.answers()) is not None:
            self._deciding = deciding = None
            self.post_message(self.Decided(answers))
        self.display = deciding is not None
        if deciding is None:
            return
        for name in ("#one", "#several", "#words"):
            self.query_one(name).display = False
        if (question := deciding.question) is not None:
            self._draw_question(question, deciding.place)
        elif (current := deciding.current) is not None:
            self._draw_approval(current, deciding.place)

    def _draw_approval(self, decision: Decision, place: str) -> None:
        what = Text.assemble(
            "The agent wants to use ", (unhidden(decision.tool) or "a tool", "bold")
        )
        if place:
            what.append(f"  ({place})", "dim")
        self.query_one("#what", Static).update(what)
        self._show_full(in_full(decision.tool, decision.arguments) or decision.message)
        self._offer(self, _KEYS)

    def _draw_question(self, question: Question, place: str) -> None:
        what = Text.assemble((unhidden(question.header) or "A question", "bold"), f"  {place}")
        self.query_one("#what", Static).update(what)
        self._show_full(question.text)
        if not question.options:
            self._ask_for_words("")
        elif question.allows_several:
            self._offer_several(question)
        else:
            self._offer_one(question)

    def _offer_one(self, question: Question) -> None:
        options = self.query_one("#one", OptionList)
        options.clear_options()
        for label, description in question.options:
            options.add_option(_option(label, description))
        options.add_option(Text(_OWN_WORDS, "dim"))
        options.highlighted = 0
        options.display = True
        self._offer(options, "[Enter] choose   [Esc] dismiss")

    def _offer_several(self, question: Question) -> None:
        several = self._several
        several.clear_options()
        for label, description in question.options:
            text = _option(label, description)
            several.add_options([Selection(text, label)])
        several.highlighted = 0
        several.display = True
        self._ask_for_words("Add words of your own, or just press Enter")
        self._offer(several, "[Space] choose   [Tab] then [Enter] send   [Esc] dismiss")

    def _ask_for_words(self, placeholder: str) -> None:
        words = self.query_one("#words", Input)
        words.value = ""
        words.placeholder = placeholder or "Your answer"
        words.display = True
        self._offer(words, "[Enter] send   [Esc] dismiss")

    def _offer(self, widget: Widget, keys: str) -> None:
        """What the keys do, there; nobody who is writing elsewhere is taken away from it."""
        if self._takes_focus:
            widget.focus()
        else:
            keys = "[Shift+Tab] comes here from your message, to decide"
        self.query_one("#keys", Static).update(Text(keys, "dim"))

    def _show_full(self, text: str) -> None:
        self.query_one("#full", Static).update(Text(unhidden(text)))


def _option(label: str, description: str) -> Text:
    return Text.assemble((unhidden(label), "bold"), f"  {unhidden(description)}")
