"""How every benchmark says what it measured, and where."""

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path


def machine() -> str:
    """One line about where this was measured."""
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} x {model}, {platform.system()} {platform.release()},"
        f" CPython {platform.python_version()}, load {load:.1f}"
    )


def figure(name: str, values: Sequence[float], unit: str, note: str = "") -> None:
    """One line: the median of what was measured, its spread, and how often."""
    median = statistics.median(values)
    spread = f"{min(values):,.3g} to {max(values):,.3g}, n={len(values)}"
    print(f"{name}: {median:,.4g} {unit} (median; {spread}){'; ' + note if note else ''}")
