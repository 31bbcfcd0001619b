"""A worker's lines, for a test that wants them in hand."""

from collections.abc import Sequence

import anyio

from sessions.domain.ports import Worker


async def all_lines(worker: Worker) -> list[bytes]:
    """Every line until the worker is gone."""
    said: list[bytes] = []
    await worker.pump(said.extend)
    return said


async def next_lines(worker: Worker, count: int = 1) -> list[bytes]:
    """So many lines, and what came with them; fewer when the worker is gone before."""
    said: list[bytes] = []
    with anyio.CancelScope() as enough:

        def take(batch: Sequence[bytes]) -> None:
            said.extend(batch)
            if len(said) >= count:
                enough.cancel()

        await worker.pump(take)
    return said
