"""`roost daemon` from spawn to ready, and its memory when idle."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import figure, machine

ROUNDS = 15


def started(home: Path) -> tuple[float, float]:
    """Milliseconds to ready, and MiB resident two seconds later."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environ |= {"ROOST_HOME": str(home), "ROOST_BINDING__PORT": "0"}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "roost", "daemon"], env=environ, stderr=subprocess.DEVNULL
    )
    try:
        ready = home / "run/daemon.json"
        while not ready.exists():
            assert process.poll() is None, "the daemon ended"
            time.sleep(0.001)
        took = (time.perf_counter() - began) * 1000
        time.sleep(2)
        status = Path(f"/proc/{process.pid}/status").read_text()
        rss = next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS"))
        return took, rss / 1024
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def bare() -> float:
    """The floor: an interpreter that starts and ends."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    print(machine())
    times: list[float] = []
    memory: list[float] = []
    floor: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        started(Path(folder) / "warm-up")
        for number in range(ROUNDS):
            took, rss = started(Path(folder) / str(number))
            times.append(took)
            memory.append(rss)
            floor.append(bare())
    figure("daemon, spawn to ready", times, "ms", "aim: 400")
    figure("an interpreter that does nothing", floor, "ms", "the floor")
    figure("daemon, resident when idle", memory, "MiB", "aim: 60")


if __name__ == "__main__":
    main()
