"""The web panel in a real Chromium: the first list, a word's way to the screen, the files' size.

The floors are measured in the same run: a list with one conversation, and the moment at which
another client, without a screen, has the same line.
"""

import gzip
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import Browser, expect

from agui.panel.panel import STATIC
from benchmarks.panel_parts.worker import WORDS
from benchmarks.report import figure, machine
from roost.home import RoostHome
from roost.panel.catalogue import SavedConversations
from tests.panel.scene import PATIENCE, OtherClient, PanelDaemon, a_browser, a_panel

CONVERSATIONS = 1_000
PROJECTS = 20
ROUNDS = 7

# From the start of the navigation to the frame that has a row in it.
_FIRST_ROW = """() => new Promise((done) => {
  const look = () => document.querySelector("[data-row]")
    ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))
    : requestAnimationFrame(look);
  look();
})"""
# Of each word that comes, when it was written and when the frame with it was painted.
_WATCH = """() => {
  window.painted = [];
  new MutationObserver(() => {
    const words = document.querySelector(".answered")?.innerText.split(" ") ?? [];
    const written = Number(words.filter(Boolean).at(-1));
    if (Number.isFinite(written)) requestAnimationFrame(() => setTimeout(() =>
      window.painted.push([written, performance.timeOrigin + performance.now()])));
  }).observe(document.querySelector(".transcript"), { childList: true, subtree: true });
}"""


def save(home: RoostHome, count: int) -> None:
    """Conversations of a usual length: some turns, about 60 KB each."""
    filler = {"kind": "message", "message": {"id": "m", "role": "assistant", "content": "x" * 600}}
    for number in range(count):
        project = f"/home/me/project-{number % PROJECTS}"
        said = {"id": "u", "role": "user", "content": f"question {number}"}
        entries = [
            {"kind": "conversation", "conversation_id": f"c{number}", "project_dir": project},
            {"kind": "input", "messages": [said]},
            *([filler] * 100),
            {"kind": "run_ended", "at": "2026-05-04T10:00:00.000Z", "outcome": "success"},
        ]
        folder = home.conversations(project)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries]
        (folder / f"c{number}.jsonl").write_text("".join(lines))


def first_lists(browser: Browser, root: Path, count: int) -> list[float]:
    daemon = PanelDaemon(RoostHome(root / f"home-{count}"), root)
    daemon.home.path.mkdir()
    save(daemon.home, count)
    daemon.start()
    try:
        with a_panel(browser, daemon) as panel:
            times: list[float] = []
            for _ in range(ROUNDS):
                panel.page.reload()
                times.append(float(panel.page.evaluate(_FIRST_ROW)))
            return times
    finally:
        daemon.end()


def words_ways(browser: Browser, root: Path) -> tuple[list[float], list[float]]:
    """Milliseconds from the worker's write to the painted frame, and to another client."""
    command = json.dumps([sys.executable, "-m", "benchmarks.panel_parts.worker"])
    here = Path(__file__).parents[1]
    daemon = PanelDaemon(RoostHome(root / "home-words"), here, command)
    daemon.home.path.mkdir()
    daemon.start()
    received: list[float] = []
    try:
        with a_panel(browser, daemon) as panel, daemon.client("words") as other:
            panel.open_thread("words")
            panel.page.evaluate(_WATCH)
            reading = threading.Thread(target=_read, args=(other, received))
            reading.start()
            panel.say("go")
            expect(panel.page.get_by_role("button", name="Send")).to_be_visible()
            reading.join(PATIENCE)
            panel.page.wait_for_function("n => window.painted.length >= n / 2", arg=WORDS)
            pairs: list[list[float]] = panel.page.evaluate("window.painted")
    finally:
        daemon.end()
    first: dict[float, float] = {}
    for written, painted in pairs:
        first.setdefault(written, painted - written)
    return list(first.values()), received


def _read(other: OtherClient, received: list[float]) -> None:
    for _ in range(WORDS):
        event = other.until("TEXT_MESSAGE_CONTENT")
        received.append(time.time() * 1000 - float(event["delta"]))


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder, a_browser() as browser:
        root = Path(folder).resolve()
        floor = first_lists(browser, root, 1)
        figure("first list, 1 saved conversation (floor)", floor, "ms")
        figure(
            f"first list, {CONVERSATIONS:,} saved conversations",
            first_lists(browser, root, CONVERSATIONS), "ms", "reload to the painted row",
        )  # fmt: skip
        home = RoostHome(root / f"home-{CONVERSATIONS}")
        cold: list[float] = []
        for _ in range(ROUNDS):
            catalogue = SavedConversations(home)
            began = time.perf_counter()
            assert len(catalogue.all()) == CONVERSATIONS
            cold.append((time.perf_counter() - began) * 1000)
        figure("of it, reading them all anew, once a daemon", cold, "ms")
        painted, received = words_ways(browser, root)
        figure("worker line to another client (floor)", received, "ms")
        figure("worker line to painted text", painted, "ms")
    sizes = [len(gzip.compress(file.read_bytes())) for file in STATIC.rglob("*") if file.is_file()]
    print(f"the page's files, compressed: {sum(sizes) / 1000:.0f} kB (aim: 300)")


if __name__ == "__main__":
    main()
