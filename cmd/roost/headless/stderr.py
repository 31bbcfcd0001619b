"""What the user, or the daemon's log, is told when it can't be a line of the conversation."""

import json
import os
import sys

from roost.headless.options import now


def tell(text: str) -> None:
    """One line on stderr, in the form that the daemon asked for."""
    if os.environ.get("ROOST_LOGGING__STDERR_JSON") == "true":
        entry = {"timestamp": now(), "level": "error", "event": "headless_failed", "reason": text}
        write(json.dumps(entry, ensure_ascii=False))
    else:
        write(f"roost headless: {text}")


def write(line: str) -> None:
    """A line as it is. A closed stderr changes nothing."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
