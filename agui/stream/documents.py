"""The state and the activities that a client of a stream holds, which patches change. Pure."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from msgspec import Raw

from agui.stream.json_patch import BadPatch, Json, decoded, patched


@dataclass(slots=True)
class Documents:
    """As they are after the events so far."""

    state: Json = field(default_factory=dict[str, Json])
    activities: dict[str, Json] = field(default_factory=dict[str, Json])

    def set_state(self, snapshot: Raw) -> None:
        """Raises BadPatch when it can't be read."""
        self.state = decoded(snapshot)

    def patch_state(self, delta: Iterable[Raw]) -> None:
        """Raises BadPatch, and changes nothing then."""
        self.state = patched(self.state, delta)

    def has_activity(self, name: str) -> bool:
        return name in self.activities

    def keep_activities(self, names: Collection[str]) -> None:
        """Forget the others: a snapshot that tells of any tells of all."""
        self.activities = {k: v for k, v in self.activities.items() if k in names}

    def set_activity(self, name: str, content: dict[str, Raw], *, replaces: bool) -> bool:
        """Whether there was none of that name. Without `replaces`, one that is there stays."""
        is_new = name not in self.activities
        if is_new or replaces:
            self.activities[name] = {key: decoded(value) for key, value in content.items()}
        return is_new

    def patch_activity(self, name: str, patch: Iterable[Raw]) -> None:
        """Raises BadPatch, and changes nothing then."""
        if name not in self.activities:
            raise BadPatch("an activity is patched that was never told")
        content = patched(self.activities[name], patch)
        if not isinstance(content, dict):
            raise BadPatch("an activity is no object after a patch")
        self.activities[name] = content
