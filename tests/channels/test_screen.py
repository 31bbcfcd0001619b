"""The screen of one chat as a pure core: what it sends next, and what becomes of what fails."""

from roost.channels.domain.messages import Button, MessageId, OutFile
from roost.channels.domain.ports import Limits
from roost.channels.domain.posts import MOST_POSTS, Post, Screen, Shown, pressed
from tests.channels.fakes import FakeMessaging


def a_screen(limits: Limits | None = None) -> tuple[FakeMessaging, Screen]:
    service = FakeMessaging(limits)
    return service, Screen(Shown(), service.chunks, service.limits, 1.0)


def test_too_many_posts_leave_a_note_where_some_are_missing() -> None:
    _, screen = a_screen()
    for number in range(MOST_POSTS + 50):
        screen.put(Post(key="text", text=f"message {number}"), 0.0)
    texts = [post.text for post in screen.posts]
    assert len(texts) <= MOST_POSTS + 1
    assert "left out here" in texts[0]
    assert texts[-1] == f"message {MOST_POSTS + 49}"


def test_a_button_of_another_life_with_the_same_numbers_presses_nothing() -> None:
    """Numbers begin anew when what was kept is lost; the phone still shows what was sent before."""
    names: list[str] = []
    for key in ("ask:1:0:call-of-then", "ask:1:0:call-of-now"):
        _, screen = a_screen()
        screen.put(Post(key=key, text="?", buttons=[[Button("Approve", "decide 1 0 approve")]]), 0)
        step = screen.next_step(10.0)
        assert step is not None
        names.append(step.message.buttons[0][0][1])
        known = [pressed(screen.posts, name) is not None for name in names]
    assert known == [False, True]


def test_a_file_that_is_refused_becomes_words() -> None:
    _, screen = a_screen()
    screen.put(Post(key="f", text="here", file=OutFile(name="big.zip", path="/x")), 0.0)
    step = screen.next_step(10.0)
    assert step is not None
    screen.refused(step)
    step = screen.next_step(20.0)
    assert step is not None
    assert step.message.file is None
    assert "big.zip could not be sent here" in step.message.chunk.plain


def test_a_text_that_became_shorter_leaves_no_wrong_words() -> None:
    """Markdown that comes later can change how long a text is."""
    _, screen = a_screen()
    post = screen.put(Post(key="t", text="word " * 150, is_kept=True), 0.0)
    now = 10.0
    while (step := screen.next_step(now)) is not None:
        screen.done(step, MessageId(step.index + 1), now)
        now += 10
    assert len(post.parts) == 2
    post.text = "short"
    first = screen.next_step(now)
    assert first is not None and first.message.chunk.plain == "short"
    screen.done(first, first.message_id, now)
    second = screen.next_step(now + 10)
    assert second is not None and second.message.chunk.plain == "…"


def test_a_button_of_another_life_with_the_same_number_presses_nothing() -> None:
    """What was kept was lost, and numbers began anew: it must not approve a new call."""
    names: list[str] = []
    for call in ("old", "new"):
        _, screen = a_screen()
        buttons = [[Button("Approve", "decide 1 0 approve")]]
        screen.put(Post(key=f"ask:1:0:{call}", text="?", buttons=buttons, is_kept=True), 0.0)
        step = screen.next_step(10.0)
        assert step is not None
        names.append(step.message.buttons[0][0][1])
    assert pressed(screen.posts, names[1]) is not None
    assert pressed(screen.posts, names[0]) is None
