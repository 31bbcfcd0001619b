"""The daemon's memory while a worker floods a client that does not read."""

import json
import sys
import tempfile
from pathlib import Path

import anyio

from benchmarks.relay_parts.worker import LINE_BYTES
from benchmarks.report import machine
from roost.demo.client import connected
from roost.demo.daemon import a_daemon
from roost.home import RoostHome

LINES = 600_000


def resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS")) / 1024


async def measure(root: Path) -> None:
    home = RoostHome(root / "home")
    home.path.mkdir()
    worker = json.dumps([sys.executable, "-m", "benchmarks.relay_parts.worker"])
    settings = {"ROOST_WORKER__COMMAND": worker, "PYTHONPATH": str(Path.cwd())}
    async with a_daemon(home, **settings) as daemon:
        pid = daemon.process.pid
        async with connected("frozen", daemon.port, daemon.token) as frozen:
            await frozen.open("/tmp", "bench")
            before = peak = resident(pid)
            frozen.socket.transport.pause_reading()
            await frozen.say(f"flood {LINES}", "m")
            with anyio.move_on_after(30):
                while (await daemon.threads())[0]["status"] != "idle":
                    peak = max(peak, resident(pid))
                    await anyio.sleep(0.02)
            (thread,) = await daemon.threads()
            print(f"a client that does not read, {LINES * LINE_BYTES / 2**20:.0f} MiB for it:")
            print(f"  resident before {before:.1f} MiB, at most {peak:.1f} MiB")
            print(f"  the client was cut off: {'yes' if thread['followers'] == 0 else 'no'}")


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder).resolve())


if __name__ == "__main__":
    main()
