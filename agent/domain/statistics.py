"""What a conversation amounts to: counts over the branch it is on, and costs over all of it."""

from collections import Counter
from collections.abc import Sequence

from agent.domain.conversation import Conversation
from agent.domain.entries import Compacted, Entry, Navigated, encode_entry


def statistics(conversation: Conversation, entries: Sequence[Entry]) -> dict[str, object]:
    """The report of the command. `entries` are all there are, on every branch."""
    messages = conversation.transcript.visible()
    roles = Counter(message.role for message in messages)
    usage = conversation.usage.values()
    given = sum(row.input_tokens for row in usage)
    taken = sum(row.output_tokens for row in usage)
    costs = [row.cost for row in usage if row.cost is not None]
    return {
        "messages": len(messages),
        "userMessages": roles["user"],
        "assistantMessages": roles["assistant"],
        "toolCalls": sum(len(message.tool_calls or ()) for message in messages),
        "toolResults": roles["tool"],
        "tokens": {
            "input": given,
            "output": taken,
            "cachedInput": sum(row.cached_input_tokens for row in usage),
            "total": given + taken,
        },
        "cost": round(sum(costs), 6) if costs else None,
        "entries": len(entries),
        "bytes": sum(len(encode_entry(entry)) for entry in entries),
        "branches": 1 + sum(isinstance(entry, Navigated) for entry in entries),
        "compactions": sum(isinstance(entry, Compacted) for entry in entries),
    }
