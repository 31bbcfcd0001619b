"""The decisions of a chat: asked in posts, answered by buttons and replies, closed as they end.

For the chat's own thread, and for every other one while it watches. One resume answers all that a
thread waits for; what was decided elsewhere is closed here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from roost.channels.domain import decisions
from roost.channels.domain.decisions import Decision, Verdict
from roost.channels.domain.messages import OutFile
from roost.channels.domain.posts import Post, Screen
from roost.channels.domain.state import ChatState, decision_thread
from roost.channels.domain.thread_reader import Asked, Call
from sessions.domain.keys import ThreadKey

_NO = frozenset({"no", "n", "decline", "declined", "reject", "rejected", "stop"})
DECIDED = "This was decided already."
_DECLINED = "Not run: declined"
# Where a decision was made. Who made it elsewhere is told by the next view, if at all.
_HERE = "here"
_ELSEWHERE = "elsewhere"

SendResume = Callable[[ThreadKey, list[Decision]], None]


@dataclass(slots=True)
class Inbox:
    state: ChatState
    screen: Screen
    send_resume: SendResume

    def asked(self, thread: ThreadKey, asked: tuple[Asked, ...], now: float) -> None:
        """A run waits. What is known already keeps its post; what is gone is closed."""
        self.left(thread)  # who is known to have answered, answers for these from now on
        ids = {entry.id for entry in asked}
        known = self.state.thread_decisions(thread)
        for decision in known:
            if decision.id not in ids:
                self._close(decision, _ELSEWHERE, now)
        for entry in asked:
            if all(decision.id != entry.id for decision in known):
                self._ask(thread, entry, now)
        for decision in self.state.thread_decisions(thread):
            decision.is_sent = False  # it still waits, so an answer that was sent did not arrive
        self._answer_when_complete(thread, now)

    def began(self, thread: ThreadKey, now: float) -> None:
        """A run began there: what waited is decided, by us if our answer was on its way."""
        for decision in self.state.thread_decisions(thread):
            self._close(decision, _HERE if decision.is_sent else _ELSEWHERE, now)

    def joined(self, thread: ThreadKey, calls: dict[str, Call], now: float) -> None:
        """A snapshot: a call that has a result waits for nobody."""
        for decision in self._of(thread):
            call = calls.get(decision.id)
            if call is not None and call.succeeded is not None:
                if not decision.is_closed:
                    self._close(decision, _HERE if decision.is_sent else _ELSEWHERE, now)
                self.came_to(call, now)

    def came_to(self, call: Call, now: float) -> None:
        """A call's result: it tells what was decided, and puts right what was not ours."""
        decision = next((d for d in self.state.decisions if d.id == call.id), None)
        if decision is None or not decision.is_closed or decision.is_question:
            return
        verdict: Verdict = "declined" if call.error.startswith(_DECLINED) else "approved"
        if decision.verdict != verdict:
            decision.verdict, decision.by, decision.reason = verdict, "", ""
            if decision.where == _HERE:
                decision.where = _ELSEWHERE
        self._show(decision, now)
        if decision.where != _ELSEWHERE:
            self._forget(decision)

    def decided_in(self, thread: ThreadKey, name: str, now: float) -> None:
        """The client that answered what was decided elsewhere says what it is."""
        for decision in self._of(thread):
            if decision.is_closed and decision.where == _ELSEWHERE:
                decision.where = f"in {name}"
                self._show(decision, now)

    def not_open(self, thread: ThreadKey, now: float) -> None:
        """The thread waits for nobody, whatever we thought."""
        for decision in self.state.thread_decisions(thread):
            self._close(decision, _HERE if decision.is_sent else _ELSEWHERE, now)
        for decision in self._of(thread):
            if decision.where != _ELSEWHERE:
                self._forget(decision)

    def left(self, thread: ThreadKey) -> None:
        """What came of its closed decisions will not be told here any more."""
        for decision in self._of(thread):
            if decision.is_closed:
                self._forget(decision)

    def _forget(self, decision: Decision) -> None:
        """It is closed, and its posts stay as they are."""
        self.state.decisions.remove(decision)
        for index in range(max(1, len(decision.questions))):
            post = self.screen.keyed(_key(decision, index))
            if post is not None:
                post.is_kept = False

    def _of(self, thread: ThreadKey) -> list[Decision]:
        return [d for d in self.state.decisions if decision_thread(d) == thread]

    def refused(self, thread: ThreadKey, now: float) -> bool:
        """An error came back while our answer was on its way: ask again. False: none was."""
        sent = [d for d in self.state.thread_decisions(thread) if d.is_sent]
        for decision in sent:
            decision.reopen()
            self._show(decision, now)
        return bool(sent)

    def decline_all(self, thread: ThreadKey, now: float) -> None:
        """Nobody is to be asked here."""
        for decision in self.state.thread_decisions(thread):
            verdict: Verdict = "dismissed" if decision.is_question else "declined"
            decision.decide(verdict, "the setting telegram.require_approval")
        self._answer_when_complete(thread, now)

    # What people do

    def pressed(self, words: list[str], by: str, now: float) -> str:
        """A button: `<number> <question> <verb> [option]`. Returns what to tell the presser."""
        number, index, verb = int(words[0]), int(words[1]), words[2]
        decision = next((d for d in self.state.decisions if d.number == number), None)
        if decision is None or decision.is_closed or decision.verdict is not None:
            return DECIDED
        said = self._verdict(decision, index, verb, words[3:], by)
        self._show(decision, now)
        self._answer_when_complete(decision_thread(decision), now)
        return said

    def _verdict(self, decision: Decision, index: int, verb: str, rest: list[str], by: str) -> str:
        match verb:
            case "approve":
                decision.decide("approved", by)
                return "Approved"
            case "decline":
                decision.decide("declined", by)
                return "Declined"
            case "dismiss":
                decision.decide("dismissed", by)
                return "Dismissed"
            case "done":
                question = decision.questions[index]
                if not question.chosen:
                    return "Choose at least one, or reply in your own words"
                question.is_answered = True
            case _:
                question = decision.questions[index]
                label = question.options[int(rest[0])][0]
                if question.is_multi:
                    chosen = [c for c in question.chosen if c != label]
                    question.chosen = chosen if label in question.chosen else [*chosen, label]
                    return ""
                question.chosen, question.is_answered = [label], True
        decision.answered_all(by)
        return "Answered"

    def replied(self, post: Post, text: str, by: str, now: float) -> bool:
        """An answer in words, to a decision's post. False: the post asks nothing any more."""
        _, number, index, _ = post.key.split(":", 3)
        decision = next((d for d in self.state.decisions if d.number == int(number)), None)
        if decision is None or decision.is_closed or decision.verdict is not None:
            return False
        self._answer(decision, int(index), text, by)
        self._show(decision, now)
        self._answer_when_complete(decision_thread(decision), now)
        return True

    def _answer(self, decision: Decision, index: int, text: str, by: str) -> None:
        word = text.strip().lower().rstrip(".!")
        if decision.is_question:
            question = decision.questions[index]
            label = next((o for o, _ in question.options if o.lower() == word), None)
            question.chosen = [label] if label else question.chosen
            question.other = "" if label else text.strip()
            if question.other and not question.is_multi:
                question.chosen = []
            question.is_answered = True
            decision.answered_all(by)
        elif word in decisions.YES:
            decision.decide("approved", by)
        else:
            decision.decide("declined", by, "" if word in _NO else text.strip())

    def first_open_post(self, thread: ThreadKey) -> Post | None:
        """What a message answers where there are no buttons and no replies."""
        for decision in self.state.thread_decisions(thread):
            for index in range(max(1, len(decision.questions))):
                answered = decision.is_question and decision.questions[index].is_answered
                if decision.verdict is None and not answered:
                    return self.screen.keyed(_key(decision, index))
        return None

    # Posts

    def _ask(self, thread: ThreadKey, entry: Asked, now: float) -> None:
        number = self.state.next_decision
        self.state.next_decision += 1
        decision = decisions.decision_of(entry, number, thread.project_dir, thread.conversation_id)
        self.state.decisions.append(decision)
        self._show(decision, now)

    def _show(self, decision: Decision, now: float) -> None:
        for index in range(max(1, len(decision.questions))):
            key = _key(decision, index)
            post = self.screen.keyed(key)
            if post is None:
                if decision.is_closed:
                    continue
                post = self.screen.put(self._post(decision, key), now)
            if decision.is_question:
                question = decision.questions[index]
                post.text = decisions.question_text(decision, question, self._heading(decision))
            else:
                post.text = decisions.ask_text(decision, self._heading(decision))
            post.buttons = decisions.buttons_of(decision, index)
            post.is_kept = not decision.is_closed or decision.where == _ELSEWHERE

    def _post(self, decision: Decision, key: str) -> Post:
        text = decisions.file_text(decision)
        file = None if text is None else OutFile(name="approval.txt", text=text)
        return Post(key=key, text="", file=file, is_kept=True)

    def _heading(self, decision: Decision) -> str:
        """Where it is, when that is not the thread this chat is in."""
        if decision_thread(decision) == self.state.thread:
            return ""
        name = decision.project_dir.rsplit("/", 1)[-1] or "/"
        return f"In `{name}`, conversation `{decision.conversation_id}`:"

    def _close(self, decision: Decision, where: str, now: float) -> None:
        if where == _ELSEWHERE:
            decision.verdict, decision.by, decision.reason = None, "", ""
        decision.close(where)
        self._show(decision, now)

    def _answer_when_complete(self, thread: ThreadKey, now: float) -> None:
        waiting = self.state.thread_decisions(thread)
        if not waiting or any(d.verdict is None or d.is_sent for d in waiting):
            return
        for decision in waiting:
            decision.is_sent = True
            self._show(decision, now)
        self.send_resume(thread, waiting)


def _key(decision: Decision, index: int) -> str:
    return f"ask:{decision.number}:{index}:{decision.id}"
