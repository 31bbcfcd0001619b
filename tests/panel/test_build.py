"""The page in the package is what its sources make; they pass their own checks and tests.

Skips loudly where node is missing, and fails there when CI is set.
"""

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agui.panel.panel import STATIC

_SOURCES = Path(__file__).parents[2] / "panel"
_LARGEST = 300 * 1000


def npx(*command: str) -> None:
    """Run one of the panel's tools. What it has to say about a failure fails the test."""
    if shutil.which("npx") is None or not (_SOURCES / "node_modules").is_dir():
        reason = "NOT BUILT: the panel's tools are not installed (node 20, `make panel-tools`)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    environ = os.environ | {"CI": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        ["npx", "--no-install", *command],
        cwd=_SOURCES, env=environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def files(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_the_page_in_the_package_is_built_from_its_sources(tmp_path: Path) -> None:
    """Byte for byte: nobody can read a built file, so nobody may have to trust one."""
    npx("vite", "build", "--outDir", str(tmp_path), "--emptyOutDir", "--logLevel", "error")
    built, packaged = files(tmp_path), files(STATIC)
    assert sorted(built) == sorted(packaged), "run `make panel` and commit what it makes"
    differing = [name for name in built if built[name] != packaged[name]]
    assert differing == [], "run `make panel` and commit what it makes"


def test_the_sources_pass_the_type_checker() -> None:
    npx("tsc", "--noEmit")


def test_the_sources_pass_their_own_tests() -> None:
    npx("vitest", "run")


def test_the_page_is_small() -> None:
    """Over a phone's connection to a laptop, and because small is easier to trust."""
    size = sum(len(gzip.compress(content)) for content in files(STATIC).values())
    assert 0 < size <= _LARGEST
