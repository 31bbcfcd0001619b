"""Which projects are trusted, and how that is said."""

import fcntl
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from roost.cli import main
from roost.trust import BadTrustFile, TrustedProjects


@pytest.fixture
def projects(tmp_path: Path) -> TrustedProjects:
    return TrustedProjects(tmp_path / "home" / "trusted.json")


def folder(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.mkdir(parents=True)
    return path


def test_nothing_is_trusted_at_first(projects: TrustedProjects, tmp_path: Path) -> None:
    assert projects.directories() == ()
    assert not projects.includes(str(tmp_path))


def test_a_trusted_project_stays_so_until_it_is_revoked(
    projects: TrustedProjects, tmp_path: Path
) -> None:
    project = folder(tmp_path, "p")
    projects.add(str(project))
    assert projects.includes(str(project))
    assert projects.includes(f"{project}/../p/")
    assert projects.remove(str(project))
    assert not projects.includes(str(project))
    assert not projects.remove(str(project))


def test_trust_is_not_inherited_in_either_direction(
    projects: TrustedProjects, tmp_path: Path
) -> None:
    """A vendored checkout inside a trusted project is somebody else's."""
    inner = folder(tmp_path, "outer/inner")
    projects.add(str(inner.parent))
    assert not projects.includes(str(inner))
    assert not projects.includes(str(inner.parent.parent))


def test_a_link_is_judged_by_where_it_leads(projects: TrustedProjects, tmp_path: Path) -> None:
    good, bad = folder(tmp_path, "good"), folder(tmp_path, "bad")
    link = tmp_path / "link"
    link.symlink_to(good)
    projects.add(str(link))
    assert projects.includes(str(good))
    link.unlink()
    link.symlink_to(bad)
    assert not projects.includes(str(link))


def test_the_record_is_the_owners_only(projects: TrustedProjects, tmp_path: Path) -> None:
    projects.add(str(tmp_path))
    assert stat.S_IMODE(projects.file.stat().st_mode) == 0o600
    assert [path.name for path in projects.file.parent.iterdir()] == ["trusted.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"trusted": 1}', '{"trusted": [1]}', "\xff"])
def test_a_damaged_record_is_never_overwritten(
    projects: TrustedProjects, tmp_path: Path, content: str
) -> None:
    projects.file.parent.mkdir()
    projects.file.write_text(content, encoding="latin-1")
    with pytest.raises(BadTrustFile, match="damaged"):
        projects.add(str(tmp_path))
    assert projects.file.read_text(encoding="latin-1") == content


def run(home: Path, *arguments: str) -> tuple[int, str]:
    answer = CliRunner().invoke(main, ["trust", *arguments], env={"ROOST_HOME": str(home)})
    return answer.exit_code, answer.output


def test_the_command_trusts_lists_and_revokes(tmp_path: Path) -> None:
    project = folder(tmp_path, "p")
    assert run(tmp_path, str(project)) == (0, f"Trusted: {project}\n")
    assert run(tmp_path, "--list") == (0, f"{project}\n")
    assert json.loads((tmp_path / "trusted.json").read_text()) == {"trusted": [str(project)]}
    assert run(tmp_path, "--revoke", str(project)) == (0, f"No longer trusted: {project}\n")
    assert run(tmp_path, "--revoke", str(project)) == (0, f"Not trusted: {project}\n")
    assert run(tmp_path, "--list") == (0, "")


def test_the_command_takes_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path) == (0, f"Trusted: {tmp_path}\n")


def test_the_command_refuses_what_is_no_folder(tmp_path: Path) -> None:
    code, out = run(tmp_path, str(tmp_path / "nothing"))
    assert code == 1
    assert "is not a folder" in out
    assert not (tmp_path / "trusted.json").exists()


def test_the_command_says_that_the_record_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "trusted.json").write_text("{")
    code, out = run(tmp_path, "--list")
    assert code == 1
    assert "damaged" in out


def test_two_who_trust_at_the_same_time_both_are_heard(
    projects: TrustedProjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roost.trust._LONGEST_WAIT", 60)
    folders = [str(folder(tmp_path, f"p{n}")) for n in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(projects.add, folders))
    assert projects.directories() == tuple(sorted(folders))


def test_a_record_that_stays_locked_is_not_waited_for_for_ever(
    projects: TrustedProjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roost.trust._LONGEST_WAIT", 0.05)
    projects.file.parent.mkdir()
    held = os.open(projects.file.parent, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BadTrustFile, match="another program"):
            projects.add(str(tmp_path))
    finally:
        os.close(held)
    assert projects.directories() == ()
