"""For whoever uses the keyboard alone, a screen reader, a phone, or dark colors."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.panel.conftest import Stage
from tests.panel.scene import Panel, a_panel

AXE = Path(__file__).parents[2] / "panel" / "node_modules" / "axe-core" / "axe.min.js"


def violations(page: Page) -> list[str]:
    """What axe finds wrong with what is shown now."""
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize(("phone", "dark"), [(False, False), (True, True)], ids=["desk", "phone"])
def test_axe_finds_nothing_in_any_view(stage: Stage, phone: bool, dark: bool) -> None:
    if not AXE.exists():
        pytest.fail("axe is not installed: `make panel-tools`")
    with (
        a_panel(stage.browser, stage.daemon, phone=phone, dark=dark) as panel,
        stage.daemon.client("seen") as client,
    ):
        page = panel.page
        client.say("ask Which bed?")
        asked = client.asked()
        # Through the debugger: the page itself may load no such script.
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, list[str]] = {}
        panel.go("#/")
        expect(page.locator("[data-row]").first).to_be_visible()
        found["list"] = violations(page)
        panel.go("#/inbox")
        expect(page.get_by_role("radio", name="Yes")).to_be_visible()
        found["inbox"] = violations(page)
        panel.go("#/new")
        expect(page.get_by_role("button", name="Start")).to_be_visible()
        found["new"] = violations(page)
        page.get_by_role("heading").first.click()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        found["help"] = violations(page)
        page.keyboard.press("Escape")
        panel.open_thread("seen")
        expect(page.get_by_role("radio", name="Yes")).to_be_visible()
        page.get_by_label("More").click()
        found["thread"] = violations(page)
        assert {view: wrong for view, wrong in found.items() if wrong} == {}
        client.answer(asked, "cancelled")
        client.until("RUN_FINISHED")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_in_a_rich_conversation(stage: Stage, dark: bool) -> None:
    with a_panel(stage.browser, stage.staged, dark=dark) as panel:
        page = panel.page
        panel.open_thread("rich")
        panel.say("go on")
        expect(page.get_by_label("Usage")).to_be_visible()
        for details in page.locator("details:not(.menu)").all():
            details.locator("summary").click()
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert violations(page) == []


def test_the_keyboard_alone_is_enough(stage: Stage, panel: Panel) -> None:
    page = panel.page
    for number in range(2):
        with stage.daemon.client(f"keys-{number}") as client:
            client.say(f"think of key {number}")
            client.until("RUN_FINISHED")
    page.keyboard.press("/")
    expect(page.get_by_label("Search conversations")).to_be_focused()
    page.keyboard.type("of key")
    rows = page.locator("[data-row]")
    expect(rows).to_have_count(2)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="think of key 0")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.type("run true")
    page.keyboard.press("Enter")
    expect(page.locator("[data-decision]")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.locator(".call").last).to_contain_text("done")
    page.keyboard.press("q")
    expect(page.locator(".said").last).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Pick a conversation")).to_be_visible()
    page.keyboard.press("i")
    expect(page.get_by_role("heading", name="Decisions")).to_be_focused()
    page.keyboard.press("n")
    expect(page.get_by_label("What is it about?")).to_be_focused()


def test_a_screen_reader_hears_what_changes_in_sentences(panel: Panel) -> None:
    page = panel.page
    panel.open_thread("heard")
    said = page.locator("[role=status].hidden")
    panel.say("run true")
    expect(said).to_contain_text("waits for your approval")
    page.get_by_role("button", name="Approve").click()
    expect(said).to_contain_text("The agent is done.")


def test_nothing_is_wider_than_a_phone(stage: Stage) -> None:
    with a_panel(stage.browser, stage.staged, phone=True) as panel:
        for href in ("#/", "#/inbox", "#/new", stage.staged.thread_href("rich")):
            panel.go(href)
            panel.page.wait_for_timeout(100)  # nothing to wait for: what is looked at is an absence
            wide = panel.page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not wide, href
