"""A command that changes something: recorded, done, recorded. Never done a second time.

The order is the point, and every step may be the last one of this process.
"""

from collections.abc import Awaitable, Callable

from connection.journal import CommandJournal, Key


async def at_most_once(
    journal: CommandJournal, key: Key, command: str, act: Callable[[], Awaitable[bytes]]
) -> bytes | None:
    """The command's one result; None when it was received before and nobody knows what it came to.

    A repeat while it runs waits for it. Raises JournalFailed before anything was done.
    """
    if not journal.begin(key):
        return await journal.result(key)
    try:
        await journal.received(key, command)
        result = await act()
        journal.completed(key, result)
        return result
    finally:
        journal.abandoned(key)
