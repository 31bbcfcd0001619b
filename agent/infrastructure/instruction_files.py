"""What a project's own files tell its agent: `AGENTS.md` and `.roost/instructions.md`.

`AGENTS.md` counts in the project dir and in each folder above it up to the root of its repository,
the outermost first, so that the nearest has the last word. A link that leads out of the repository
is not followed: a checkout must not bring other files of the machine to a model.
"""

from collections.abc import Iterator
from pathlib import Path

from agent.domain.ports import Log

# Far more than anybody wants to pay for with each request.
LARGEST = 64 * 1024
_AGENTS = "AGENTS.md"
_OWN = Path(".roost", "instructions.md")


def project_instructions(project_dir: Path, log: Log) -> list[str]:
    """The texts, each under the name of its file. Trouble with one is logged."""
    folders = _folders(project_dir)
    found: list[str] = []
    for path in (*(folder / _AGENTS for folder in folders), project_dir / _OWN):
        try:
            text = _read(path, folders[0])
        except OSError as exc:
            log("warning", "instructions_unread", path=str(path), reason=str(exc.strerror or exc))
            continue
        if text:
            found.append(f"[{path}]\n{text}")
    return found


def _folders(project_dir: Path) -> list[Path]:
    """The project dir and what is above it up to its repository's root, outermost first."""
    chain = list(_up_to_root(project_dir.resolve()))
    return chain[::-1] if (chain[-1] / ".git").exists() else [project_dir.resolve()]


def _up_to_root(folder: Path) -> Iterator[Path]:
    while True:
        yield folder
        if (folder / ".git").exists() or folder.parent == folder:
            return
        folder = folder.parent


def _read(path: Path, root: Path) -> str:
    """Its text; nothing when there is no such file. Raises OSError."""
    try:
        real = path.resolve()
    except RuntimeError as exc:
        raise OSError("its links lead round in a circle") from exc
    if not real.is_file():
        return ""
    if root not in real.parents:
        raise OSError(f"it leads out of {root}")
    with real.open("rb") as file:
        data = file.read(LARGEST + 1)
    text = data[:LARGEST].decode("utf-8", "replace").strip()
    return f"{text}\n[The rest is left out.]" if len(data) > LARGEST else text
