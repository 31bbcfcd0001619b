"""A worker whose behaviour is told on its command line: one word, what it does wrong or right.

Run as a real process by the launcher's tests. Standard library only, so that it starts at once.
"""

import gc
import json
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

HEEDED = ("SIGCHLD", "SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1")


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def echo() -> None:
    """Answers every line with its text; ends with its stdin."""
    for line in sys.stdin:
        say(type="ECHO", line=line.rstrip("\n"))


def counts(*, steps: bool = False) -> None:
    """A thread's worker: a run counts to the number in its message, and asks when that is odd."""
    say(type="ready", protocol=1, version="test")
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["type"] == "resume_conversation":
            say(type="MESSAGES_SNAPSHOT", messages=[])
        elif frame["type"] == "run_agent_input":
            last = int(frame["input"]["messages"][0]["content"])
            say(type="RUN_STARTED", threadId="t", runId="r")
            for n in range(last):
                while steps and n % 100 == 0 and not Path(f"go{n // 100}").exists():
                    time.sleep(0.01)
                say(type="TEXT_MESSAGE_CONTENT", messageId="m", delta=str(n))
                time.sleep(0.004)
            outcome = {"type": "interrupt", "interrupts": [{"id": "i"}]} if last % 2 else None
            say(type="RUN_FINISHED", threadId="t", runId="r", outcome=outcome)


def counts_in_steps() -> None:
    """As `counts`, but each hundred begins only when there is a file `go<hundred>`."""
    counts(steps=True)


def leaves_processes() -> None:
    """Starts what tries to get away: two forks, a session of its own, nothing of ours open."""
    program = (
        "import os,sys,time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "null = os.open('/dev/null', os.O_RDWR)\n"
        "[os.dup2(null, fd) for fd in (0, 1, 2)]\n"
        "open(sys.argv[1], 'a').write(str(os.getpid()) + '\\n')\n"
        "time.sleep(600)\n"
    )
    subprocess.run([sys.executable, "-c", program, sys.argv[2]], check=True)
    say(type="LEFT")
    echo()


def environment() -> None:
    say(type="ENV", cwd=str(Path.cwd()), argv=sys.argv[2:], env=dict(os.environ))


def state() -> None:
    """What a process may have inherited and should not have."""
    signals = {s.name: str(signal.getsignal(s)) for s in signal.Signals if s.name in HEEDED}
    say(
        type="STATE",
        random=random.random(),
        signals=signals,
        blocked=[s.name for s in map(signal.Signals, signal.pthread_sigmask(signal.SIG_BLOCK, []))],
        wakeup=signal.set_wakeup_fd(-1),
        fds=sorted(int(fd.name) for fd in list(Path("/dev/fd").iterdir()) if fd.exists()),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        log_handlers=len(logging.getLogger().handlers),
        collects=gc.isenabled(),
        group=os.getpgid(0) == os.getsid(0) == os.getpid(),
    )


def exits_at_once() -> None:
    sys.exit(3)


def rubbish() -> None:
    sys.stdout.buffer.write(b"rubbish\n\xff\xfe\n{}\n")
    sys.stdout.flush()
    say(type="AFTER")


def half_a_line() -> None:
    say(type="WHOLE")
    sys.stdout.write('{"type":"HAL')
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def long_line() -> None:
    sys.stdout.write(json.dumps({"type": "LONG", "x": "y" * int(sys.argv[2])}) + "\n")
    sys.stdout.flush()
    echo()


def deaf() -> None:
    """Never reads its stdin."""
    say(type="DEAF")
    time.sleep(600)


def stubborn() -> None:
    """Ignores the end of its stdin and SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(type="STUBBORN", pid=os.getpid())
    while True:
        time.sleep(600)


def ends_at_sigterm() -> None:
    """Does not look at its stdin, but saves its work at a SIGTERM."""

    def save(*_: object) -> None:
        say(type="TERMINATED")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    say(type="STARTED")
    while True:
        time.sleep(600)


def polite_with_child() -> None:
    """Ends as asked, but leaves a child in its group that does not."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import signal,time; signal.signal(15, 1); time.sleep(600)"]
    )
    say(type="CHILD", pid=child.pid)
    echo()


def grandchild_holds_the_pipe() -> None:
    """Dies and leaves its stdout open in a process of another session, which nobody here kills."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    say(type="CHILD", pid=child.pid)
    say(type="LAST")
    os.kill(os.getpid(), signal.SIGKILL)


def closes_stdout() -> None:
    say(type="LAST")
    os.close(1)
    sys.stdin.read()


def closes_stdin() -> None:
    os.close(0)
    say(type="CLOSED")
    time.sleep(600)


def logs() -> None:
    sys.stderr.write('{"event":"it_happened","level":"fatal","n":1,"worker_pid":5}\n')
    sys.stderr.write("Traceback (most recent call last):\n  boom\n")
    sys.stderr.flush()
    say(type="LOGGED")


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")]()
