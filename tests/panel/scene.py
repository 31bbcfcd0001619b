"""A real daemon as a process, and a real Chromium that is signed in to its panel."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)
from websockets.sync.client import ClientConnection, connect

from roost.home import RoostHome
from roost.panel.daemon_side import sign_in_link

CHROMIUM = shutil.which("chromium")
# Real processes on a machine that others use, too.
PATIENCE = 120.0
SCREENSHOTS = Path(__file__).parent / "screenshots"

_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
_DESKTOP: ViewportSize = {"width": 1200, "height": 800}
_PHONE: ViewportSize = {"width": 390, "height": 844}

expect.set_options(timeout=PATIENCE * 1000)


@dataclass(slots=True)
class PanelDaemon:
    """A daemon in a home of its own, which may be killed and started again."""

    home: RoostHome
    project: Path
    worker: str | None = None
    """What is run as a worker; None: our own."""
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
        environ |= {"ROOST_HOME": str(self.home.path), "ROOST_BINDING__PORT": str(self.port)}
        environ |= {"ROOST_BINDING__HELLO_TIMEOUT": "60s"}
        if self.worker is not None:
            environ["ROOST_WORKER__COMMAND"] = self.worker
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "roost", "daemon"],
            env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        give_up = time.monotonic() + PATIENCE
        while not (self.home.daemon_json.exists() and self._record()["pid"] == self.process.pid):
            assert self.process.poll() is None, "the daemon ended"
            assert time.monotonic() < give_up, "the daemon was not ready in time"
            time.sleep(0.02)  # another process: there is no event to wait for
        self.port = self._record()["port"]

    def kill(self) -> None:
        """Like a crash of the machine: nobody is told anything."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    @contextmanager
    def client(self, conversation_id: str, **options: Any) -> Generator["OtherClient"]:
        """A desktop app that has opened a thread."""
        token = self.home.token.read_text().strip()
        hello = {"type": "browser_hello", "client": "desktop", "protocol_version": 2}
        url = f"ws://127.0.0.1:{self.port}/ws"
        # One that leaves with events unread would wait for the answer to its farewell behind them.
        farewell = 0.1
        with connect(
            url, max_size=None, proxy=None, open_timeout=PATIENCE, close_timeout=farewell
        ) as socket:
            client = OtherClient(socket)
            client.send(**hello, token=token, name="the desktop app")
            project = str(self.project)
            opening = {"type": "resume_conversation", "project_dir": project}
            client.send(**opening, id=conversation_id, **options)
            client.until("MESSAGES_SNAPSHOT")
            yield client

    def command(self, *arguments: str) -> str:
        """What a `roost` command prints, run in the same home."""
        argv = [sys.executable, "-P", "-m", "roost", *arguments]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
        environ["ROOST_HOME"] = str(self.home.path)
        return subprocess.check_output(argv, env=environ, text=True, timeout=PATIENCE)

    def end(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE)

    def thread_href(self, conversation_id: str) -> str:
        return f"#/thread?dir={self.project}&id={conversation_id}"

    def _record(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.home.daemon_json.read_text()))


@dataclass(frozen=True, slots=True)
class OtherClient:
    """Somebody else who follows the same thread."""

    socket: ClientConnection

    def send(self, **frame: Any) -> None:
        self.socket.send(json.dumps(frame))

    def say(self, text: str) -> None:
        message = {"id": f"m-{time.monotonic_ns()}", "role": "user", "content": text}
        self.send(type="run_agent_input", input={"messages": [message]})

    def answer(self, interrupt_id: str, status: str = "resolved") -> None:
        resume = [{"interruptId": interrupt_id, "status": status}]
        self.send(type="run_agent_input", input={"messages": [], "resume": resume})

    def until(self, kind: str) -> dict[str, Any]:
        """The next event of a type."""
        while True:
            event = json.loads(self.socket.recv(timeout=PATIENCE))
            if event["type"] == kind:
                return cast("dict[str, Any]", event)

    def asked(self) -> str:
        """The id of the one interrupt that the run ends with."""
        (interrupt,) = self.until("RUN_FINISHED")["outcome"]["interrupts"]
        return cast(str, interrupt["id"])


@contextmanager
def a_daemon(root: Path, *, staged: bool = False, port: int = 0) -> Generator[PanelDaemon]:
    home = RoostHome(root / "home")
    project = root / "garden"
    home.path.mkdir(mode=0o700, parents=True)
    project.mkdir()
    command = [sys.executable, str(Path(__file__).with_name("staged_worker.py"))]
    daemon = PanelDaemon(home, project, json.dumps(command) if staged else None, port)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.end()


@contextmanager
def a_browser() -> Generator[Browser]:
    assert CHROMIUM is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=_FLAGS, timeout=PATIENCE * 1000
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Panel:
    """One signed-in browser profile, with one page."""

    daemon: PanelDaemon
    context: BrowserContext
    page: Page
    complaints: list[str]
    """What the page says of errors, to nobody."""

    def go(self, href: str) -> None:
        self.page.evaluate("href => { location.hash = href }", href)

    def open_thread(self, conversation_id: str) -> None:
        self.go(self.daemon.thread_href(conversation_id))
        expect(self.page.get_by_label("Message", exact=True)).to_be_visible()

    def say(self, text: str) -> None:
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.keyboard.press("Enter")

    def shoot(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")


@contextmanager
def a_panel(
    browser: Browser,
    daemon: PanelDaemon,
    *,
    phone: bool = False,
    dark: bool = False,
    clock: bool = False,
) -> Generator[Panel]:
    """A page that came by a link of `roost panel`. What it says to the console fails the test.

    With `clock` the test moves the page's time.
    """
    context = browser.new_context(
        viewport=_PHONE if phone else _DESKTOP,
        color_scheme="dark" if dark else "light",
        has_touch=phone,
        reduced_motion="reduce",
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text)
        if said.type == "error" and "Failed to load resource" not in said.text
        and "WebSocket connection" not in said.text and "net::ERR" not in said.text
        else None,
    )  # fmt: skip
    if clock:
        page.clock.install()
    page.goto(sign_in_link(daemon.home))
    expect(page.get_by_role("navigation")).to_be_visible()
    try:
        yield Panel(daemon, context, page, complaints)
        assert complaints == []
    finally:
        context.close()
