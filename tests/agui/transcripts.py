"""Golden transcripts: what a client and the daemon said to each other, ids made comparable.

One frame a line, `>` from the client, `<` to it. Ids, paths, times and versions are replaced by
names in the order they first appear, so that two recordings of the same story are equal, and one id
that should have been another's is seen.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roost.demo.client import Event, TourClient
from roost.version import VERSION

GOLDEN = Path(__file__).parents[1] / "golden"
_ID = re.compile(
    r"(?:call_)?\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|(?<![0-9a-z])(?:call_)?[0-9a-f]{32}\b"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


@dataclass(slots=True)
class Transcript:
    """One connection, told in the order in which the client would tell it."""

    client: TourClient
    project: Path
    token: str
    frames: list[tuple[str, Event]] = field(default_factory=list[tuple[str, Event]])
    _read: int = 0

    async def sends(self, **frame: Any) -> None:
        """Send a frame. What came before it is told before it."""
        self._catch_up()
        self.frames.append((">", frame))
        await self.client.send(**frame)

    async def hears(self, kind: str, where: Callable[[Event], bool] = lambda event: True) -> Event:
        """Read on up to a frame of a type, which must come."""
        event = await self.client.until(kind, since=self._read, where=where)
        self._catch_up(self.client.events.index(event, self._read) + 1)
        return event

    def _catch_up(self, until: int | None = None) -> None:
        end = len(self.client.events) if until is None else until
        self.frames += [("<", event) for event in self.client.events[self._read : end]]
        self._read = end

    def lines(self) -> list[str]:
        """The whole transcript, comparable."""
        self._catch_up()
        names: dict[str, str] = {}

        def named(found: re.Match[str]) -> str:
            return names.setdefault(found[0], f"id-{len(names) + 1}")

        lines: list[str] = []
        for direction, frame in self.frames:
            text = json.dumps([direction, frame], ensure_ascii=False)
            for said, name in ((str(self.project), "PROJECT"), (self.token, "TOKEN")):
                text = text.replace(said, name)
            text = text.replace(f'"{VERSION}"', '"VERSION"')
            lines.append(_ID.sub(named, _TIME.sub("TIME", text)))
        return lines


def check(request: pytest.FixtureRequest, name: str, lines: list[str]) -> None:
    """Compare with the file, or write it when the run was told to."""
    file = GOLDEN / f"{name}.jsonl"
    if request.config.getoption("--update-golden"):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == file.read_text(encoding="utf-8").splitlines(), (
        f"{file} differs. If that is meant, run the test with --update-golden and look at the diff"
    )
