"""A command that changes something: recorded, done, recorded. Never done a second time.

The order is the point, and every step may be the last one of this process.
"""

from collections.abc import Awaitable, Callable

from connection.journal import Claim, CommandJournal, IdTaken, Key


async def at_most_once(
    journal: CommandJournal,
    key: Key,
    command: str,
    asked: bytes,
    act: Callable[[], Awaitable[bytes]],
) -> bytes | None:
    """The command's one result; None when it was received before and nobody knows what it came to.

    A repeat while it runs waits for it. Raises IdTaken, and JournalFailed before anything was done.
    """
    match journal.begin(key, asked):
        case Claim.ANOTHER:
            raise IdTaken
        case Claim.REPEAT:
            return await journal.result(key)
        case Claim.NEW:
            pass
    try:
        await journal.received(key, command, asked)
        result = await act()
        journal.completed(key, result)
        return result
    finally:
        journal.abandoned(key)
