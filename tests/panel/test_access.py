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


def with_axe(panel: Panel) -> Page:
    """The panel's page, with axe in it, through the debugger: the page may load no such script."""
    if not AXE.exists():
        pytest.fail("axe is not installed: `make panel-tools`")
    panel.page.evaluate(AXE.read_text(encoding="utf-8"))
    return panel.page


def test_axe_finds_nothing_at_a_light_desk(stage: Stage, panel: Panel) -> None:
    """The list is beside everything here."""
    page = with_axe(panel)
    with stage.daemon.client("seen") as client:
        client.say("ask Which bed?")
        asked = client.asked()
        panel.open_thread("seen")
        expect(page.get_by_role("radio", name="Yes")).to_be_visible()
        page.get_by_label("More").click()
        assert violations(page) == []
        panel.go("#/new")
        expect(page.get_by_role("button", name="Start")).to_be_visible()
        page.get_by_role("heading").first.click()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        assert violations(page) == []
        client.answer(asked, "cancelled")
        client.until("RUN_FINISHED")


def test_axe_finds_nothing_on_a_dark_phone(stage: Stage) -> None:
    with (
        a_panel(stage.browser, stage.daemon, phone=True, dark=True) as panel,
        stage.daemon.client("seen-dark") as client,
    ):
        page = with_axe(panel)
        client.say("ask Which bed?")
        asked = client.asked()
        panel.go("#/inbox")
        expect(page.get_by_role("radio", name="Yes")).to_be_visible()
        assert violations(page) == []
        panel.go("#/")
        expect(page.locator("[data-row]").first).to_be_visible()
        assert violations(page) == []
        client.answer(asked, "cancelled")
        client.until("RUN_FINISHED")


def test_axe_finds_nothing_in_a_rich_dark_conversation(stage: Stage) -> None:
    with a_panel(stage.browser, stage.staged, dark=True) as panel:
        page = with_axe(panel)
        panel.open_thread("rich")
        panel.say("go on")
        expect(page.get_by_label("Usage")).to_be_visible()
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert color == "rgb(22, 22, 24)"
        panel.shoot("thread-dark")
        for details in page.locator("details:not(.menu)").all():
            details.locator("summary").click()
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
    """Nor than a small one, which is what a desk is at four times the size."""
    with a_panel(stage.browser, stage.staged, phone=True) as panel:
        views = {
            "#/": panel.page.get_by_role("navigation"),
            "#/inbox": panel.page.get_by_role("heading", name="Decisions"),
            "#/new": panel.page.get_by_role("button", name="Start"),
            stage.staged.thread_href("rich"): panel.page.get_by_role("table"),
        }
        for href, shown in views.items():
            panel.go(href)
            expect(shown).to_be_visible()
            for width in (390, 320):
                panel.page.set_viewport_size({"width": width, "height": 640})
                wide = panel.page.evaluate("document.documentElement.scrollWidth > innerWidth")
                assert not wide, (href, width)
