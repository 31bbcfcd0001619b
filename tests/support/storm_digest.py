"""What a client shows, in a few characters, so that two views can be compared over the wire."""

import hashlib
import json

from agui.stream.reducer import Reducer


def digest_of(shown: Reducer) -> str:
    text = json.dumps([shown.messages, shown.state], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
