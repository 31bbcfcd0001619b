"""Files of a project that an agent's words refer to, and that may be sent to a chat.

Only files inside the project dir, also through links, and only of kinds that a person would want
to look at on a phone: an answer that names twenty source files must not send twenty files.
"""

from pathlib import Path
from urllib.parse import unquote

from roost.channels.domain.messages import OutFile

_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
_FILES = frozenset({".gif", ".pdf", ".csv", ".xlsx", ".docx", ".pptx", ".svg", ".zip", ".mp4"})


def find_file(project_dir: str, reference: str) -> OutFile | None:
    """The file that a link or an image in a text means; None when it is none of those."""
    suffix = Path(reference).suffix.lower()
    if suffix not in _IMAGES | _FILES:
        return None
    try:
        root = Path(project_dir).resolve()
        file = (root / unquote(reference.removeprefix("file://"))).resolve()
        if not file.is_relative_to(root) or not file.is_file():
            return None
    except (OSError, ValueError, RuntimeError):
        return None
    return OutFile(name=file.name, path=str(file), is_image=suffix in _IMAGES)


def is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False
