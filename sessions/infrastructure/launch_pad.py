"""The daemon's hold on its launch pad: started when first wanted, started again when it ends.

Whoever wants a fork while there is none gets none, and starts a fresh interpreter: a pad is only
ever a faster way.
"""

import socket
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import structlog
from anyio.abc import Process

from sessions.domain.keeper_frames import PAD_READY, PAD_REQUEST
from sessions.infrastructure.marks import VARIABLE, Mark, Role, roomy

log = structlog.stdlib.get_logger()

# A pad that ends soon after its start would do so again: each time it rests twice as long.
_FIRST_REST = 1.0
_LONGEST_REST = 60.0
_LONG_LIFE = 30.0
# What an import may need of the environment. Anything else, secrets above all, stays out of it.
_NEEDED = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "USER"})
_NEEDED_PREFIXES = ("LC_", "PYTHON", "LD_", "SSL_CERT_", "ROOST_HOME", "ROOST_AGENT__MODEL")


@dataclass(slots=True)
class LaunchPad:
    """Enter `serving` to have one; ask `fork` at any time."""

    argv: Sequence[str]
    """The pad's program; it gets the number of its socket as last argument."""
    environ: Mapping[str, str]
    home: str
    """The mark of the roost home."""
    is_warm: bool = False
    _process: Process | None = None
    _requests: socket.socket | None = None
    _wanted: anyio.Event = field(default_factory=anyio.Event)

    @property
    def pid(self) -> int | None:
        """Of the one there is now, warm or not."""
        return None if self._process is None else self._process.pid

    def fork(self, link: socket.socket) -> bool:
        """Ask for a keeper at the other end of this connection. False: there is no warm pad."""
        self._wanted.set()
        if not self.is_warm or self._requests is None:
            return False
        try:
            socket.send_fds(self._requests, [PAD_REQUEST], [link.fileno()])
        except OSError:
            return False
        return True

    def replace(self) -> None:
        """It does not answer. What it was asked for ends with it, and another one is started."""
        self.is_warm = False
        if self._process is not None:
            log.warning("launch_pad_replaced", launch_pad_pid=self.pid)
            with suppress(ProcessLookupError):
                self._process.kill()

    def offer(self, requests: socket.socket) -> None:
        """The pad at the other end is warm."""
        self._requests, self.is_warm = requests, True

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Have a pad while the block runs, from when it is first wanted."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._supervise)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _supervise(self) -> None:
        await self._wanted.wait()
        rest = _FIRST_REST
        while True:
            began = anyio.current_time()
            try:
                if await self._run_one() == 0:
                    # It was out of date and said no more: nothing is wrong with the next one.
                    rest = _FIRST_REST
                    continue
            except OSError as exc:
                log.warning("launch_pad_not_started", reason=exc.strerror)
            lived = anyio.current_time() - began
            rest = _FIRST_REST if lived > _LONG_LIFE else min(2 * rest, _LONGEST_REST)
            await anyio.sleep(rest)

    async def _run_one(self) -> int | None:
        """One pad, from its start to its end. Returns its exit code.

        Raises OSError when it can't be started.
        """
        ours, pads = socket.socketpair()
        ours.setblocking(False)
        environ = pad_environment(self.environ)
        environ[VARIABLE] = roomy(Mark(self.home, Role.PAD, "0" * 32))
        try:
            process = await anyio.open_process(
                [*self.argv, str(pads.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None,
                env=environ,
                cwd="/",
                start_new_session=True,
                pass_fds=(pads.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            pads.close()
        try:
            self._process = process
            await self._use(ours)
        finally:
            self._process, self._requests, self.is_warm = None, None, False
            # Its socket's end is its end; what does not heed that is made to.
            ours.close()
            await _end(process)
        return process.returncode

    async def _use(self, requests: socket.socket) -> None:
        """Offer its forks once it is warm, until it is gone."""
        began = anyio.current_time()
        while True:
            await anyio.wait_readable(requests)
            try:
                said = requests.recv(16)
            except BlockingIOError:
                continue
            except OSError:
                said = b""
            if not said:
                log.info("launch_pad_ended", launch_pad_pid=self.pid)
                return
            if said.startswith(PAD_READY):
                self.offer(requests)
                elapsed = round((anyio.current_time() - began) * 1000)
                log.info("launch_pad_warm", launch_pad_pid=self.pid, elapsed_ms=elapsed)


def pad_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The little that imports may look at."""
    return {
        name: value
        for name, value in environ.items()
        if name in _NEEDED or name.startswith(_NEEDED_PREFIXES)
    }


async def _end(process: Process) -> None:
    with anyio.move_on_after(2.0, shield=True) as scope:
        await process.wait()
    if scope.cancelled_caught:
        with suppress(ProcessLookupError):
            process.kill()
        with anyio.move_on_after(5.0, shield=True):
            await process.wait()
