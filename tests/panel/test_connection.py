"""What happens to a page when the daemon, the network or its session goes away."""

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, Locator, WebSocketRoute, expect

from tests.panel.conftest import Stage
from tests.panel.scene import Panel, PanelDaemon, a_daemon, a_panel
from tests.support.ports import a_port_to_keep


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Generator[PanelDaemon]:
    """A daemon that tests kill, and whose sessions they end."""
    folder = tmp_path_factory.mktemp("doomed").resolve()
    with a_daemon(folder, port=a_port_to_keep()) as daemon:
        yield daemon


def words_of(answer: Locator) -> list[str]:
    """Those that are counted."""
    return [word for word in answer.inner_text().split() if word.startswith("word")]


def test_a_connection_that_is_cut_in_mid_run_loses_and_doubles_nothing(panel: Panel) -> None:
    page = panel.page
    sockets: list[WebSocketRoute] = []
    is_down = False

    def keep(route: WebSocketRoute) -> None:
        if is_down:
            route.close()
        else:
            route.connect_to_server()
            sockets.append(route)

    page.route_web_socket("**/ws", keep)
    panel.open_thread("cut")
    panel.say("slow 1800")
    answer = page.locator(".answered").last
    expect(answer).to_contain_text("word5")
    # It stays down until that was seen: the first attempt would come through at once.
    is_down = True
    sockets[-1].close()
    expect(page.get_by_text("not connected, trying again")).to_be_visible()
    is_down = False
    expect(page.locator(".answered.is-open")).to_be_visible()
    seen = len(words_of(answer))
    expect(answer).to_contain_text(f"word{seen + 5}")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".answered.is-open")).to_have_count(0)
    words = words_of(answer)
    assert words == [f"word{number}" for number in range(1, len(words) + 1)]
    assert len(sockets) > 1


def test_a_page_outlives_the_daemon_and_is_right_afterwards(
    browser: Browser, doomed: PanelDaemon
) -> None:
    """As overnight: the daemon dies, somebody goes on elsewhere, and the tab was never touched."""
    daemon = doomed
    with a_panel(browser, daemon) as panel:
        page = panel.page
        panel.open_thread("night")
        panel.say("run echo good morning")
        expect(page.locator("[data-decision]")).to_be_visible()
        daemon.kill()
        expect(page.get_by_text("Not connected", exact=True)).to_be_visible()
        panel.shoot("away")
        panel.say("think of breakfast")
        expect(page.locator(".is-pending")).to_contain_text("sent when connected")
        expect(page.get_by_role("button", name="Approve")).to_be_disabled()
        expect(page.get_by_role("button", name="Try now")).to_be_visible()
        daemon.start()
        # It may come back by itself before anybody has found the button.
        page.evaluate("document.querySelector('.connection button')?.click()")
        expect(page.get_by_text("Not connected", exact=True)).to_have_count(0)
        expect(page.get_by_label("1 waiting")).to_be_visible()
        expect(page.get_by_label("Waiting messages")).to_contain_text("think of breakfast")
        expect(page.locator(".is-pending")).to_have_count(0)
        with daemon.client("other") as other:
            other.say("think of tea")
            other.until("RUN_FINISHED")
        expect(page.locator("[data-row]").filter(has_text="think of tea")).to_be_visible()
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".call")).to_contain_text("done")
        expect(page.locator(".said").last).to_have_text("think of breakfast")
        expect(page.locator(".said")).to_have_count(2)


def test_a_silent_connection_is_taken_for_a_dead_one(stage: Stage, browser: Browser) -> None:
    """A lid that was closed leaves connections that look open and never say anything again."""
    with a_panel(browser, stage.daemon, clock=True) as panel:
        page = panel.page
        expect(page.locator(".connection")).to_have_count(0)
        with page.expect_request("**/api/feed"):
            page.clock.fast_forward("10:00:00")
            page.clock.run_for(20_000)
        expect(page.locator(".connection")).to_have_count(0)


def test_who_is_not_signed_in_is_told_how(stage: Stage, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{stage.daemon.port}/#sign-in=wrong")
    expect(page.get_by_role("alert")).to_contain_text("Run 'roost panel' again.")
    expect(page.get_by_text("roost panel", exact=True)).to_be_visible()
    assert "wrong" not in page.url
    context.close()


def test_signing_everybody_out_empties_every_page(browser: Browser, doomed: PanelDaemon) -> None:
    with a_panel(browser, doomed) as panel:
        panel.open_thread("secret")
        assert "signed out" in doomed.command("panel", "--revoke")
        expect(panel.page.get_by_role("heading", name="You are not signed in")).to_be_visible()
        expect(panel.page.get_by_role("navigation")).to_have_count(0)
        assert panel.page.evaluate("localStorage.length") == 0
