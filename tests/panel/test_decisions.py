"""Decisions: all of it is seen before it is made, it is made once, and everybody hears of it."""

import json
import re
from pathlib import Path

from playwright.sync_api import expect

from tests.panel.conftest import Stage
from tests.panel.scene import Panel, a_panel


def test_the_inbox_has_every_threads_decisions_and_takes_keys(stage: Stage, panel: Panel) -> None:
    page = panel.page
    with (
        stage.daemon.client("inbox-write") as write,
        stage.daemon.client("inbox-run") as run,
        stage.daemon.client("inbox-ask") as ask,
    ):
        write.say("write beds.txt: roses, herbs")
        write.until("RUN_FINISHED")
        run.say("run echo declined > no.txt")
        run.until("RUN_FINISHED")
        ask.say("ask Shall I water the roses?")
        ask.until("RUN_FINISHED")
        page.get_by_role("link", name=re.compile("Decisions")).click()
        decisions = page.locator(".main [data-decision]")
        expect(decisions).to_have_count(3)
        expect(decisions.nth(0).locator(".diff")).to_contain_text("+roses, herbs")
        expect(decisions.nth(1)).to_contain_text("echo declined > no.txt")
        expect(decisions.nth(2)).to_contain_text("Shall I water the roses?")
        panel.shoot("inbox")
        page.keyboard.press("j")
        expect(decisions.nth(0)).to_be_focused()
        page.keyboard.press("j")
        expect(decisions.nth(1)).to_be_focused()
        page.keyboard.press("k")
        page.keyboard.press("a")
        assert json.loads(write.until("TOOL_CALL_RESULT")["content"])["success"] is True
        expect(decisions).to_have_count(2)
        decisions.nth(0).focus()
        page.keyboard.press("d")
        assert json.loads(run.until("TOOL_CALL_RESULT")["content"])["success"] is False
        expect(decisions).to_have_count(1)
        question = decisions.nth(0)
        expect(question.get_by_role("button", name="Answer")).to_be_disabled()
        question.get_by_label("Yes").check()
        question.get_by_role("button", name="Answer").click()
        answered = json.loads(ask.until("TOOL_CALL_RESULT")["content"])
        assert "Yes" in str(answered["output"])
        expect(decisions).to_have_count(0)
    assert (stage.daemon.project / "beds.txt").read_text() == "roses, herbs\n"
    assert not (stage.daemon.project / "no.txt").exists()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()


def test_what_another_client_answers_disappears_and_says_where(stage: Stage, panel: Panel) -> None:
    with (
        stage.daemon.client("elsewhere") as desktop,
        a_panel(stage.browser, stage.daemon, phone=True) as phone,
    ):
        panel.open_thread("elsewhere")
        phone.go("#/inbox")
        for number in range(2):
            seen = stage.daemon.project / f"answer-{number}-was-seen"
            desktop.say(f"run until test -e {seen.name}; do sleep 0.1; done")
            asked = desktop.asked()
            for page in (panel.page, phone.page):
                expect(page.locator("[data-decision]")).to_be_visible()
            phone.shoot("phone-inbox")
            desktop.answer(asked)
            for page in (panel.page, phone.page):
                expect(page.locator("[data-decision]")).to_have_count(0)
                expect(page.get_by_text("Answered in the desktop app.")).to_be_visible()
            seen.touch()
            desktop.until("RUN_FINISHED")


def test_several_decisions_of_one_run_leave_as_one_answer(stage: Stage, panel: Panel) -> None:
    page = panel.page
    panel.open_thread("several")
    page.get_by_label("Message", exact=True).fill("run echo one > one.txt\nrun echo two > two.txt")
    page.keyboard.press("Enter")
    decisions = page.locator("[data-decision]")
    expect(decisions).to_have_count(2)
    decisions.nth(0).get_by_role("button", name="Approve").click()
    expect(decisions.nth(0)).to_contain_text("sent when the others are decided")
    assert not (stage.daemon.project / "one.txt").exists()
    decisions.nth(1).get_by_label("Why not").fill("two is too many")
    decisions.nth(1).get_by_role("button", name="Decline").click()
    expect(decisions).to_have_count(0)
    declined = page.locator(".call").nth(1)
    expect(declined).to_contain_text("failed")
    expect(page.locator(".call").nth(0)).to_contain_text("done")
    assert (stage.daemon.project / "one.txt").read_text() == "one\n"
    assert not (stage.daemon.project / "two.txt").exists()


def test_an_answer_in_own_words_and_an_edit_in_full(stage: Stage, panel: Panel) -> None:
    page = panel.page
    Path(stage.daemon.project / "plan.txt").write_text("roses: 2\nherbs: 4\n")
    panel.open_thread("own-words")
    edit = {"path": "plan.txt", "old": "roses: 2", "new": "roses: 12"}
    panel.say(f"use Edit {json.dumps(edit)}")
    decision = page.locator("[data-decision]")
    expect(decision.locator(".line.is-removed")).to_contain_text("roses: 2")
    expect(decision.locator(".line.is-added")).to_have_text("+roses: 12\n")
    panel.shoot("edit")
    decision.get_by_role("button", name="Approve").click()
    expect(decision).to_have_count(0)
    panel.say("ask Which bed first?")
    page.get_by_label("In your own words").fill("the herbs")
    page.get_by_label("In your own words").press("Enter")
    expect(page.locator(".call").last).to_contain_text("done")
    assert (stage.daemon.project / "plan.txt").read_text() == "roses: 12\nherbs: 4\n"


def test_an_answer_of_another_shape_is_json_and_never_surely_wrong(staged: Panel) -> None:
    page = staged.page
    staged.open_thread("asks")
    staged.say("water them")
    box = page.get_by_label("Your answer, as JSON")
    answer = page.locator(".decision").get_by_role("button", name="Answer")
    expect(box).to_have_value('{\n  "liters": null\n}')
    for wrong, why in (("{", "This is not JSON yet."), ("{}", "Missing: liters.")):
        box.fill(wrong)
        expect(page.get_by_text(why)).to_be_visible()
        expect(answer).to_be_disabled()
    box.fill('{"liters": 12}')
    answer.click()
    expect(page.locator(".answered").last).to_contain_text('{"liters": 12}')


def test_one_decision_in_two_tabs_is_made_once(stage: Stage, panel: Panel) -> None:
    """Both at once: the second one is told, and nothing runs twice."""
    other = panel.context.new_page()
    other.goto(f"http://127.0.0.1:{stage.daemon.port}/{stage.daemon.thread_href('two-tabs')}")
    panel.open_thread("two-tabs")
    panel.say("run echo once >> once.txt")
    buttons = [page.get_by_role("button", name="Approve") for page in (panel.page, other)]
    for button in buttons:
        expect(button).to_be_enabled()
    # Held first: the first click's effect takes the other button away.
    held = [button.element_handle() for button in buttons]
    for handle in held:
        handle.evaluate("button => setTimeout(() => button.click())")
    for page in (panel.page, other):
        expect(page.locator(".call")).to_contain_text("done")
        expect(page.locator("[data-decision]")).to_have_count(0)
        expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert (stage.daemon.project / "once.txt").read_text() == "once\n"
