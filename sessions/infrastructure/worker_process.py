"""Starting a keeper's worker: by exec of a command, or as a fork that runs a program in place.

Both get the same: a session of their own, three pipes as stdin, stdout and stderr, the thread's
directory and environment, Python's own signal handlers, no other descriptor, and a SIGTERM should
the keeper die before them.
"""

import gc
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from sessions.infrastructure.descendants import end_with_parent
from sessions.infrastructure.pipes import Pipes

# What the pipe of a worker's stdout holds. Twice the kernel's own: a keeper costs a flood a third
# less then. Not more, as all pipes of a user share a limit.
_STDOUT_BYTES = 128 * 1024

Program = Callable[[Sequence[str]], object]
"""What a fork runs, with the arguments behind the command's name. May raise SystemExit."""


@dataclass(slots=True)
class WorkerProcess:
    """Its pid, and our ends of its pipes; non-blocking, -1 once closed."""

    pid: int
    stdin: int
    stdout: int
    stderr: int

    def close(self, name: str) -> None:
        fd: int = getattr(self, name)
        if fd >= 0:
            setattr(self, name, -1)
            os.close(fd)

    def signal(self, signum: int) -> None:
        """To its whole group, whose leader it is."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)


def exec_worker(
    argv: Sequence[str], environ: Mapping[str, str], before: Callable[[], None]
) -> WorkerProcess:
    """Start a command in the present directory. Raises OSError.

    `before` is called first in its process.
    """

    def before_exec() -> None:
        end_with_parent(signal.SIGTERM)
        before()

    pipes = Pipes.make(_STDOUT_BYTES)
    try:
        process = subprocess.Popen(
            argv,
            stdin=pipes.child_stdin,
            stdout=pipes.child_stdout,
            stderr=pipes.child_stderr,
            env=environ,
            start_new_session=True,
            # One thread is all there is, so that this is safe.
            preexec_fn=before_exec,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as exc:
        pipes.close()
        if isinstance(exc, OSError):
            raise
        raise OSError(0, str(exc)) from exc
    finally:
        pipes.close_childs()
    # The keeper reaps all of its children itself.
    process.returncode = 0
    return WorkerProcess(process.pid, pipes.stdin, pipes.stdout, pipes.stderr)


def fork_worker(
    program: Program,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    before: Callable[[], None],
) -> WorkerProcess:
    """Run a program in a fork of this process, in the present directory. Raises OSError.

    `before` is called first in the fork.
    """
    pipes = Pipes.make(_STDOUT_BYTES)
    try:
        pid = os.fork()
    except OSError:
        pipes.close()
        raise
    if pid == 0:
        _run_fork(program, arguments, environ, pipes, before)
    pipes.close_childs()
    return WorkerProcess(pid, pipes.stdin, pipes.stdout, pipes.stderr)


def _run_fork(
    program: Program,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    pipes: Pipes,
    before: Callable[[], None],
) -> NoReturn:
    """Become what an exec of the program would be. Never returns, whatever happens."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        end_with_parent(signal.SIGTERM)
        for target, fd in enumerate((pipes.child_stdin, pipes.child_stdout, pipes.child_stderr)):
            os.dup2(fd, target)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(environ)
        before()
        gc.enable()
        program(arguments)
        code = 0
    except SystemExit as exc:
        code = _exit_code(exc)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        # Not the way out through the interpreter: it would touch, and so copy, every shared page.
        os._exit(code)


def _exit_code(exc: SystemExit) -> int:
    if exc.code is None:
        return 0
    if isinstance(exc.code, int):
        return exc.code & 0xFF
    print(exc.code, file=sys.stderr)  # noqa: T201 (as the interpreter does)
    return 1
