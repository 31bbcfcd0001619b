"""Where a worker opens its subagents, when it has outlived the daemon that it was started by."""

from pathlib import Path

import pytest

from roost.headless.delegation import daemon_url
from roost.home import RoostHome

GIVEN = "ws://127.0.0.1:1/ws"


def test_the_daemon_of_now_is_dialled(tmp_path: Path) -> None:
    home = RoostHome(tmp_path)
    home.run.mkdir()
    home.daemon_json.write_text('{"host":"127.0.0.1","port":4711}')
    assert daemon_url(home, GIVEN) == "ws://127.0.0.1:4711/ws"


@pytest.mark.parametrize("content", [None, "{", "[]", "7", '{"port":1}', '{"host":"h","port":"x"}'])
def test_without_a_readable_run_file_it_is_the_one_of_our_start(
    tmp_path: Path, content: str | None
) -> None:
    home = RoostHome(tmp_path)
    if content is not None:
        home.run.mkdir()
        home.daemon_json.write_text(content)
    assert daemon_url(home, GIVEN) == GIVEN
