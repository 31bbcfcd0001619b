"""What a client from inside a worker may do: talk to threads below its own, and decide nothing.

Rights come from the parents that threads were recorded with, never from what a thread is called.
"""

from collections.abc import Mapping

from sessions.domain.keys import Subagent, ThreadKey, ThreadOptions


class NotAllowed(ValueError):
    """The client may not do this. The message is for the sender."""


_DECIDES = (
    "this connection comes from inside a worker: it may open threads below its own and send them"
    " messages, and decides nothing"
)


def check_frame(kind: str, answered: frozenset[str]) -> None:
    """Raises NotAllowed for a frame that decides something."""
    if answered or kind not in ("run_agent_input", "interrupt", "stop_thread"):
        raise NotAllowed(_DECIDES)


def check_thread(
    inside: ThreadKey,
    key: ThreadKey,
    options: ThreadOptions,
    recorded: Mapping[ThreadKey, ThreadOptions],
) -> None:
    """Raises NotAllowed for a thread that is not below the client's own.

    A thread that is known counts with the parent that it was recorded with. One that is not gets
    the parent that the frame names, and must be named as a subagent of it, too: so that an old
    conversation of a person can't be opened as somebody's child. Nor does a new one get a smaller
    depth or more tools than its parent leaves it.
    """
    known = recorded.get(key)
    if known is None:
        parent = options.subagent.parent if options.subagent else None
        if parent is None or not key.conversation_id.startswith(f"subagent-{parent}-"):
            raise NotAllowed(
                f"{_DECIDES}: a new thread needs the option subagent with its parent, and a"
                " conversation id that begins with subagent-<parent>-"
            )
    if not is_below(inside, known or options, recorded):
        raise NotAllowed(f"{_DECIDES}: {key.conversation_id} is not below its thread")
    if known is None and options.subagent is not None:
        _check_lineage(options.subagent, recorded)


def _check_lineage(claimed: Subagent, recorded: Mapping[ThreadKey, ThreadOptions]) -> None:
    """Raises NotAllowed for a subagent that would have more than its parent was recorded with.

    One may claim to be deeper than it seems from here: the options of a parent that a person
    opened again are lost, and only its conversation still knows that it is a subagent.
    """
    above = next(
        (o.subagent for k, o in recorded.items() if k.conversation_id == claimed.parent), None
    )
    depth = 1 if above is None else above.depth + 1
    if claimed.depth < depth:
        raise NotAllowed(
            f"{_DECIDES}: a subagent of {claimed.parent} has at least the depth {depth}, not"
            f" {claimed.depth}"
        )
    if above is not None and (more := sorted(set(claimed.tools) - set(above.tools))):
        raise NotAllowed(
            f"{_DECIDES}: {claimed.parent} has not these tools, so its subagents have none of them:"
            f" {', '.join(more)}"
        )


def is_below(
    above: ThreadKey, options: ThreadOptions, recorded: Mapping[ThreadKey, ThreadOptions]
) -> bool:
    """Is the thread with these options a subagent of that one, or of one of its subagents?"""
    parents: dict[str, ThreadOptions] = {k.conversation_id: o for k, o in recorded.items()}
    seen: set[str] = set()
    while options.subagent is not None and options.subagent.parent not in seen:
        parent = options.subagent.parent
        if parent == above.conversation_id:
            return True
        seen.add(parent)
        known = parents.get(parent)
        if known is None:
            return False
        options = known
    return False
