"""The binding's secret: from the settings, else from a file that is made at the first start."""

import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from roost.settings import BindingSection


class BadToken(Exception):
    """There is no usable token. The message is one line and never holds one."""


@dataclass(frozen=True, slots=True)
class Token:
    """The secret, and a sentence for the log if something had to be put right."""

    secret: str
    warning: str | None = None

    def __repr__(self) -> str:
        return "Token(...)"


def existing_token(binding: BindingSection, file: Path) -> str | None:
    """The token if there is one, without making any. Raises BadToken."""
    if binding.token is not None:
        return binding.token.get_secret_value().strip()
    try:
        secret = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise BadToken(f"the token file {file} can't be read; repair or delete it") from exc
    if not secret:
        raise BadToken(f"the token file {file} is empty; delete it, and the daemon makes a new one")
    return secret


def ensure_token(binding: BindingSection, file: Path) -> Token:
    """The token, made now if need be. A file that others may read is closed to them. BadToken."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret = existing_token(binding, file)
    if binding.token is not None and secret is not None:
        return Token(secret)
    try:
        if secret is None:
            return Token(_made(file))
        return Token(secret, _tightened(file))
    except OSError as exc:
        raise BadToken(f"the token file {file} can't be written: {exc.strerror}") from exc


def _made(file: Path) -> str:
    secret = secrets.token_hex(32)
    # Never readable by others, not even for a moment, and never over a file that came meanwhile.
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as out:
        out.write(secret + "\n")
        out.flush()
        os.fsync(out.fileno())
    return secret


def _tightened(file: Path) -> str | None:
    mode = stat.S_IMODE(file.stat().st_mode)
    if not mode & 0o077:
        return None
    file.chmod(0o600)
    return (
        f"{file} was open to other users (mode {mode:o}) and is closed now;"
        " if someone may have read it, delete it and start again"
    )
