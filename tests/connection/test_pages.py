"""The boundary's pages are true: what they call built is, and what they call missing says so."""

import inspect
from pathlib import Path

import pytest

from connection import port
from connection.daemon import DaemonConnection
from connection.failures import CapabilityUnavailable
from connection.in_process import InProcessConnection
from connection.unbuilt import Unbuilt
from roost.connection_pages import GROUPS, not_built, port_page, protocol_page, unbuilt_capability

CONTRACT = Path(__file__).parents[1] / "contracts" / "test_connection.py"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.fixture
def anyio_backend() -> str:
    """What does nothing does it on every event loop."""
    return "asyncio"


def test_the_pages_are_what_the_code_says() -> None:
    """Renew them: python -m roost.connection_pages"""
    assert (REFERENCE / "agent-connection.md").read_text(encoding="utf-8") == port_page()
    assert (REFERENCE / "local-protocol.md").read_text(encoding="utf-8") == protocol_page()


def test_the_port_is_the_sum_of_its_groups() -> None:
    assert set(GROUPS) <= set(inspect.getmro(port.AgentConnection))


@pytest.mark.parametrize("adapter", [InProcessConnection, DaemonConnection])
def test_an_adapter_has_every_operation_with_the_arguments_of_the_port(adapter: type) -> None:
    for group in GROUPS:
        for name, promised in inspect.getmembers(group, inspect.isfunction):
            if name.startswith("_"):
                continue
            kept = getattr(adapter, name)
            asked = list(inspect.signature(promised).parameters)
            assert list(inspect.signature(kept).parameters) == asked, name


@pytest.mark.parametrize("name", not_built())
async def test_what_is_not_built_raises_its_capability(name: str) -> None:
    operation = getattr(Unbuilt(), name)
    needed = [p for p in inspect.signature(operation).parameters.values() if p.default is p.empty]
    with pytest.raises(CapabilityUnavailable) as lacking:
        result = operation(*(object() for _ in needed))
        if inspect.isawaitable(result):
            await result
    assert lacking.value.capability == unbuilt_capability(name)


def test_every_operation_that_is_built_is_held_to_the_contract() -> None:
    """What the page calls built was seen to work on both adapters."""
    contract = CONTRACT.read_text()
    operations = {
        name
        for group in GROUPS
        for name, _ in inspect.getmembers(group, inspect.isfunction)
        if name in group.__dict__ and not name.startswith("_")
    }
    built = operations - set(not_built())
    # A recorder subscribes for most tests.
    missing = {name for name in built if f"connection.{name}(" not in contract}
    assert missing == set()
