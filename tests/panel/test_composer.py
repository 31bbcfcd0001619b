"""Where one writes: lines, history, skills, files, and messages that wait their turn."""

from pathlib import Path

from playwright.sync_api import expect

from tests.panel.conftest import Stage
from tests.panel.scene import Panel
from tests.panel.staged_worker import PICTURE

PASTE = """([data, kind]) => {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], "bed.png", { type: "image/png" }));
  const box = document.querySelector("#composer");
  box.dispatchEvent(
    kind === "paste"
      ? new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true })
      : new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }),
  );
}"""


def test_lines_history_and_drafts(panel: Panel) -> None:
    page = panel.page
    panel.open_thread("lines")
    box = page.get_by_label("Message", exact=True)
    box.fill("help")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("think")
    expect(box).to_have_value("help\nthink")
    page.keyboard.press("Enter")
    expect(box).to_have_value("")
    expect(page.locator(".said-text")).to_have_text("help\nthink")
    expect(page.locator(".answered").last).to_contain_text("I thought about it")
    panel.say("think again")
    expect(page.locator(".said")).to_have_count(2)
    box.fill("a draft")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    expect(box).to_have_value("think again")
    page.keyboard.press("ArrowUp")
    expect(box).to_have_value("help\nthink")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(box).to_have_value("a draft")
    page.reload()
    expect(box).to_have_value("a draft")


def test_a_slash_offers_the_projects_skills(stage: Stage, panel: Panel) -> None:
    folder = Path(stage.daemon.project / ".roost" / "skills" / "pruning")
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: pruning\ndescription: When and how roses are cut.\n---\nIn March.\n"
    )
    page = panel.page
    panel.open_thread("skills")
    page.get_by_label("Message", exact=True).press_sequentially("/pru")
    option = page.get_by_role("option", name="/pruning")
    expect(option).to_contain_text("When and how roses are cut.")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message", exact=True)).to_have_value("/pruning ")
    expect(option).to_have_count(0)


def test_pictures_are_pasted_dropped_taken_back_and_sent(panel: Panel) -> None:
    page = panel.page
    panel.open_thread("pictures")
    for kind in ("paste", "drop"):
        page.evaluate(PASTE, [PICTURE, kind])
    waiting = page.get_by_label("Files to send").get_by_role("listitem")
    expect(waiting).to_have_count(2)
    page.get_by_label("Remove bed.png").first.click()
    expect(waiting).to_have_count(1)
    panel.say("look at this")
    expect(waiting).to_have_count(0)
    shown = page.locator(".said").get_by_role("img", name="bed.png")
    expect(shown).to_be_visible()
    # Decoded by the browser: it is the picture that was sent.
    expect(shown).to_have_js_property("naturalWidth", 1)


def test_a_message_while_it_works_waits_and_can_be_taken_back(panel: Panel) -> None:
    page = panel.page
    panel.open_thread("busy")
    panel.say("slow 1800")
    expect(page.get_by_role("button", name="Queue")).to_be_visible()
    panel.say("think of the herbs")
    panel.say("think of the tulips")
    queue = page.get_by_label("Waiting messages").get_by_role("listitem")
    expect(queue).to_have_count(2)
    panel.shoot("queue")
    queue.nth(0).get_by_role("button", name="Take back").click()
    expect(queue).to_have_count(1)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".said").last).to_have_text("think of the tulips")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    expect(page.locator(".said").filter(has_text="herbs")).to_have_count(0)
