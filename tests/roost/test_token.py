"""The binding's secret: where it comes from, and who can read it."""

import stat
from pathlib import Path

import pytest

from roost.daemon.token import BadToken, Token, ensure_token, existing_token
from roost.setting_types import Secret
from roost.settings import BindingSection

UNSET = BindingSection()


def test_the_first_start_makes_one(tmp_path: Path) -> None:
    file = tmp_path / "home" / "token"
    token = ensure_token(UNSET, file)
    assert len(bytes.fromhex(token.secret)) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert ensure_token(UNSET, file) == token
    assert existing_token(UNSET, file) == token.secret


def test_looking_for_it_makes_none(tmp_path: Path) -> None:
    assert existing_token(UNSET, tmp_path / "token") is None
    assert list(tmp_path.iterdir()) == []


def test_a_set_token_wins_and_leaves_no_file(tmp_path: Path) -> None:
    binding = BindingSection(token=Secret("mine"))
    assert ensure_token(binding, tmp_path / "token") == Token("mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o666, 0o604])
def test_a_file_that_others_can_read_is_closed_with_a_warning(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text("abc\n")
    file.chmod(mode)
    token = ensure_token(UNSET, file)
    assert token.secret == "abc"
    assert token.warning is not None
    assert "abc" not in token.warning
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ensure_token(UNSET, file).warning is None


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_file_that_holds_none_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(BadToken, match=str(file)):
        ensure_token(UNSET, file)
    assert file.read_bytes() == content


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadToken, match="can't be read"):
        ensure_token(UNSET, tmp_path)


def test_it_is_not_shown_by_accident() -> None:
    assert "abc" not in repr(Token("abc"))
