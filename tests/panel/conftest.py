"""One browser and two daemons for all tests of the panel: one with our worker, one staged."""

import os
from collections.abc import Generator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser

from tests.panel.scene import CHROMIUM, Panel, PanelDaemon, a_browser, a_daemon, a_panel


@dataclass(frozen=True, slots=True)
class Stage:
    browser: Browser
    daemon: PanelDaemon
    staged: PanelDaemon
    """Its threads say what `staged_worker` has for their ids."""


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stage]:
    if CHROMIUM is None:
        reason = "NOT TESTED: there is no chromium for the panel's tests (Debian: `chromium`)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("panel").resolve()
    with (
        a_daemon(root / "real") as daemon,
        a_daemon(root / "staged", staged=True) as staged,
        a_browser() as browser,
    ):
        yield Stage(browser, daemon, staged)


@pytest.fixture
def browser(stage: Stage) -> Browser:
    return stage.browser


@pytest.fixture
def panel(stage: Stage) -> Generator[Panel]:
    """A page that is signed in to the daemon with our own worker."""
    with a_panel(stage.browser, stage.daemon) as panel:
        yield panel


@pytest.fixture
def staged(stage: Stage) -> Generator[Panel]:
    with a_panel(stage.browser, stage.staged) as panel:
        yield panel
