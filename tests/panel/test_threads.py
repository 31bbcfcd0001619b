"""The list: live, ordered by who wants a person, searched, named, deleted, without a reload."""

import json

from playwright.sync_api import expect

from tests.panel.conftest import Stage
from tests.panel.scene import Panel, a_panel


def test_a_newcomer_starts_a_thread_approves_a_command_and_finds_it_again(panel: Panel) -> None:
    """Without having read anything: all that is clicked says what it does."""
    page = panel.page
    page.get_by_role("link", name="New", exact=True).click()
    page.get_by_label("What is it about?").fill("run echo the roses are watered")
    page.get_by_label("Project folder").fill(str(panel.daemon.project))
    expect(page.get_by_role("combobox", name="Model").locator("option")).to_have_count(2)
    page.get_by_role("combobox", name="Model").select_option("demo:scripted")
    page.get_by_role("radio", name="standard").check()
    panel.shoot("new")
    page.get_by_role("button", name="Start").click()
    decision = page.get_by_role("region", name="May it run this?")
    expect(decision).to_contain_text("echo the roses are watered")
    panel.shoot("approval")
    decision.get_by_role("button", name="Approve").click()
    expect(decision).to_be_hidden()
    call = page.locator(".call").filter(has_text="Bash")
    expect(call).to_contain_text("done")
    call.locator("summary").click()
    expect(call.get_by_label("Output")).to_have_text("the roses are watered\n")
    page.reload()
    page.get_by_label("Search conversations").fill("roses")
    found = page.get_by_role("navigation").get_by_role("link", name="echo the roses")
    found.click()
    expect(page.locator(".call")).to_contain_text("echo the roses are watered")


def test_the_list_tells_who_runs_who_waits_and_who_failed(stage: Stage, panel: Panel) -> None:
    page = panel.page
    sections = page.locator(".sidebar section")
    with stage.daemon.client("runs") as runs, stage.daemon.client("waits") as waits:
        runs.say("slow 6000")
        running = sections.filter(has_text="Running").locator("[data-row]")
        expect(running).to_contain_text("slow 6000")
        expect(running).to_contain_text("running")
        waits.say("run true")
        asked = waits.asked()
        waiting = sections.filter(has_text="Waiting for you").locator("[data-row]")
        expect(waiting).to_contain_text("waits for you · now")
        expect(page.get_by_label("1 waiting")).to_be_visible()
        expect(sections.first).to_contain_text("Waiting for you")
        panel.shoot("list")
        waits.answer(asked, "cancelled")
        expect(page.get_by_label("0 waiting")).to_be_visible()
        runs.send(type="interrupt")
        expect(running).to_have_count(0)
    failing = panel.daemon.home.conversations(str(panel.daemon.project)) / "broken.jsonl"
    begun = {"kind": "conversation", "conversation_id": "broken", "id": "1"}
    said = {"id": "m", "role": "user", "content": "it broke"}
    lines = [
        begun | {"project_dir": str(panel.daemon.project)},
        {"kind": "input", "id": "2", "messages": [said]},
        {"kind": "run_ended", "id": "3", "run_id": "r", "outcome": "error"},
    ]
    failing.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    page.reload()
    expect(page.locator("[data-row]").filter(has_text="it broke")).to_contain_text("failed")


def test_subagents_are_under_their_parent(stage: Stage, panel: Panel) -> None:
    child = "subagent-parent-0123456789ab"
    below = {"parent": "parent", "depth": 1}
    with stage.daemon.client("parent") as parent, stage.daemon.client(child, subagent=below) as sub:
        parent.say("plan the beds")
        sub.say("count the roses")
        children = panel.page.get_by_label("Subagents of plan the beds")
        expect(children.locator("[data-row]")).to_contain_text("count the roses")
        expect(children).to_contain_text("subagent")
    panel.page.get_by_label("Search conversations").fill("count")
    expect(panel.page.locator("[data-row]")).to_have_count(2)


def test_a_thread_is_named_stopped_deleted_and_taken_back(stage: Stage, panel: Panel) -> None:
    page = panel.page
    panel.open_thread("named")
    panel.say("think about tulips")
    expect(page.locator(".answered").last).to_contain_text("I thought about it")
    page.get_by_label("More").click()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Name", exact=True).fill("The tulips")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="The tulips")).to_be_visible()
    listed = page.locator("[data-row]").filter(has_text="The tulips")
    expect(listed).to_have_count(1)
    page.get_by_label("More").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.locator(".toast")).to_contain_text("“The tulips” is deleted.")
    expect(listed).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(listed).to_have_count(1)
    listed.click()
    expect(page.locator(".said")).to_contain_text("think about tulips")


def test_deleting_a_conversation_stops_its_subagents(stage: Stage, panel: Panel) -> None:
    """Nobody would find them any more, and they would go on."""
    page = panel.page
    child = "subagent-doomed-0123456789ab"
    below = {"parent": "doomed", "depth": 1}
    with stage.daemon.client("doomed") as parent, stage.daemon.client(child, subagent=below) as sub:
        parent.say("think of weeds")
        parent.until("RUN_FINISHED")
        sub.say("slow 2000")
        sub.until("TEXT_MESSAGE_CONTENT")
        panel.open_thread("doomed")
        page.get_by_label("More").click()
        page.get_by_role("button", name="Delete").click()
        expect(page.locator(".toast")).to_contain_text("“think of weeds” is deleted.")
        expect(page.locator(".row-state.is-running")).to_have_count(0)
        expect(page.locator("[data-row]").filter(has_text="slow 2000")).to_be_visible()


def test_a_worker_is_stopped_and_the_conversation_goes_on_later(panel: Panel) -> None:
    page = panel.page
    panel.open_thread("stopped")
    panel.say("slow 2000")
    expect(page.locator(".answered.is-open")).to_contain_text("word3")
    page.get_by_label("More").click()
    page.get_by_role("button", name="Stop its worker").click()
    expect(page.locator(".row-state.is-running")).to_have_count(0)
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    panel.say("think again")
    expect(page.locator(".answered").last).to_contain_text("I thought about it")


def test_addresses_lead_back_and_forward_and_straight_there(stage: Stage, panel: Panel) -> None:
    page = panel.page
    heading = page.get_by_role("heading", level=1)
    with stage.daemon.client("placed") as client:
        client.say("think of places")
        client.until("RUN_FINISHED")
    page.goto(f"http://127.0.0.1:{stage.daemon.port}/{stage.daemon.thread_href('placed')}")
    expect(heading).to_have_text("think of places")
    panel.go("#/inbox")
    expect(heading).to_have_text("Decisions")
    page.go_back()
    expect(heading).to_have_text("think of places")
    page.go_forward()
    expect(heading).to_have_text("Decisions")
    panel.go("#/nothing/like?this")
    expect(heading).to_have_text("Pick a conversation")


def test_two_browsers_on_one_thread_show_the_same(stage: Stage, panel: Panel) -> None:
    with a_panel(stage.browser, stage.daemon, phone=True) as phone:
        panel.open_thread("shared")
        phone.open_thread("shared")
        panel.say("slow 4000")
        for page in (panel.page, phone.page):
            expect(page.locator(".said")).to_have_text("slow 4000")
            expect(page.locator(".answered.is-open")).to_contain_text("word3")
        phone.page.get_by_role("button", name="Stop", exact=True).click()
        for page in (panel.page, phone.page):
            expect(page.locator(".answered.is-open")).to_have_count(0)
        texts = [page.locator(".transcript").inner_text() for page in (panel.page, phone.page)]
        assert texts[0] == texts[1]
        phone.shoot("phone-thread")
        phone.page.get_by_label("Back to the list").click()
        expect(phone.page.locator("[data-row]").filter(has_text="slow 4000")).to_be_visible()
        expect(phone.page.locator(".thread")).to_have_count(0)
        phone.shoot("phone-list")
