"""The transcript: streams, is drawn, opens, copies, scrolls; and nothing in it is ever markup."""

from playwright.sync_api import expect

from tests.panel.scene import Panel


def test_an_answer_comes_word_by_word_and_can_be_stopped(panel: Panel) -> None:
    page = panel.page
    panel.open_thread("streams")
    panel.say("slow 1900")
    answer = page.locator(".answered").last
    expect(answer).to_contain_text("3")
    shorter = len(answer.inner_text())
    page.wait_for_function(
        "length => document.querySelector('.answered:last-of-type').innerText.length > length",
        arg=shorter,
    )
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".notice")).to_contain_text("Stopped.")
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_what_a_conversation_holds_is_drawn(staged: Panel) -> None:
    page = staged.page
    staged.open_thread("rich")
    expect(page.get_by_role("img", name="bed.png")).to_be_visible()
    expect(page.get_by_role("table")).to_contain_text("roses")
    expect(page.locator(".markdown .hljs-keyword").first).to_be_visible()
    expect(page.get_by_role("heading", name="What I found")).to_be_visible()
    reasoning = page.locator(".reasoning")
    expect(reasoning.locator(".markdown")).to_be_hidden()
    reasoning.locator("summary").click()
    expect(reasoning.locator(".markdown")).to_have_text("First the notes, then the plan.")
    edit = page.locator(".call").filter(has_text="Edit")
    expect(edit.locator(".diff")).to_be_hidden()
    edit.locator("summary").click()
    expect(edit.locator(".is-removed.line")).to_contain_text("roses: 2")
    expect(edit.locator(".is-added.line")).to_have_text("+roses: 12\n")
    artifact = page.get_by_role("link", name="beds/plot.png")
    expect(artifact).to_have_attribute("href", "/artifacts/garden-00000000/beds/plot.png")
    staged.say("go on")
    expect(page.get_by_label("Usage")).to_have_text("demo:rich · 12.3k in · 456 out · $0.042")
    expect(page.locator(".todos summary")).to_contain_text("Plan: 1 of 3 · Fix the plan")
    page.locator(".todos summary").click()
    expect(page.locator(".todos li.is-completed")).to_contain_text("Read the notes")
    expect(page.get_by_label("In the background")).to_contain_text("watering")
    subagents = page.get_by_label("Subagents", exact=True)
    expect(subagents.get_by_role("listitem")).to_have_text("look up rosesrunning")
    staged.shoot("thread")


def test_a_running_commands_output_is_seen_while_it_runs(panel: Panel) -> None:
    page = panel.page
    panel.open_thread("live")
    seen = panel.daemon.project / "line-1-was-seen"
    panel.say(f"run echo line 1; until test -e {seen.name}; do sleep 0.1; done; echo line 9")
    page.get_by_role("button", name="Approve").click()
    call = page.locator(".call").last
    call.locator("summary").click()
    expect(call.get_by_label("Output")).to_contain_text("line 1")
    assert "done" not in call.locator(".call-state").inner_text()
    seen.touch()
    expect(call.get_by_label("Output")).to_contain_text("line 9")
    expect(call.locator(".call-state")).to_have_text("done")


def test_text_and_code_are_copied_as_they_were_written(staged: Panel) -> None:
    page = staged.page
    staged.open_thread("rich")
    page.locator(".markdown").get_by_label("Copy code").click()
    copied = "start => navigator.clipboard.readText().then(text => text.startsWith(start))"
    code = "def liters(beds: dict[str, int]) -> int:\n    # one can is ten\n"
    page.wait_for_function(copied, arg=code)
    page.get_by_label("Copy answer").last.click()
    page.wait_for_function(copied, arg="## What I found\n")


def test_hostile_text_is_shown_as_text(staged: Panel) -> None:
    """Whatever a model is made to say: no script, no request, no look of the page's own."""
    page = staged.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    staged.open_thread("hostile")
    expect(page.locator(".answered")).to_contain_text("<script>window.hacked = 1</script>")
    for details in page.locator(".transcript details").all():
        details.locator("summary").click()
    expect(page.locator(".call .code")).to_contain_text("onerror")
    expect(page.locator(".call .code")).to_contain_text("rm ⟨U+202E⟩ txt.seton")
    assert page.evaluate("window.hacked") is None
    inside = page.locator(".transcript")
    for tag in ("script", "iframe", "svg", "style", "img", "form", "a.button"):
        expect(inside.locator(tag)).to_have_count(0)
    for link in inside.locator("a[href]").all():
        assert (link.get_attribute("href") or "").startswith("https://")
        assert link.get_attribute("rel") == "noopener noreferrer"
    assert not [url for url in asked if "evil.example" in url]


def test_the_pages_policy_lets_no_markup_in(staged: Panel) -> None:
    """The last wall, if the others had a hole."""
    refused = staged.page.evaluate(
        """() => {
          try { document.querySelector('.main').innerHTML = '<b>x</b>'; return false; }
          catch { return true; }
        }"""
    )
    assert refused
    (complaint,) = staged.complaints
    assert "TrustedHTML" in complaint
    staged.complaints.clear()


def test_ten_thousand_messages_cost_as_much_as_a_few(staged: Panel) -> None:
    page = staged.page
    staged.open_thread("long")
    expect(page.locator(".said").last).to_have_text("question 4999")
    expect(page.locator(".answered").last).to_be_in_viewport()
    assert page.locator(".transcript article").count() < 500
    page.locator(".scroller").evaluate("box => { box.scrollTop = box.scrollHeight / 2 }")
    page.wait_for_function(
        """() => {
          const { left, top, width, height } =
            document.querySelector('.scroller').getBoundingClientRect();
          const middle = document.elementFromPoint(left + width / 2, top + height / 2);
          return middle?.closest('article') !== null;
        }"""
    )
    assert page.locator(".transcript article").count() < 500
    page.get_by_role("button", name="To the end").click()
    expect(page.locator(".said").last).to_be_in_viewport()


def test_one_jumps_to_the_last_question(staged: Panel) -> None:
    page = staged.page
    staged.open_thread("rich-jump")
    expect(page.get_by_role("table")).to_be_visible()
    page.locator(".scroller").evaluate("box => { box.scrollTop = box.scrollHeight }")
    page.get_by_label("To your last question").click()
    expect(page.locator(".said")).to_be_focused()
    expect(page.locator(".said")).to_be_in_viewport()
