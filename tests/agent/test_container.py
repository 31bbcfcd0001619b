"""Every provider of the headless container can be built: a mistyped keyword shows here."""

from pathlib import Path

from agent.infrastructure.tools.sandbox import Sandbox
from roost.headless.container import HeadlessContainer
from tests.agent.support.fakes import FakeLog


def test_every_provider_of_the_headless_container_can_be_built(tmp_path: Path) -> None:
    container = HeadlessContainer(
        project_dir=tmp_path,
        environ={},
        sandbox=Sandbox.around(tmp_path, ()),
        readable=Sandbox.around(tmp_path, ()),
        allow_private=False,
        tool_timeout=1.0,
        default_model="demo:scripted",
        provider_environ={},
        access={},
        new_id=lambda: "id",
        log=FakeLog(),
        mcp_configs=[],
    )
    container.check_dependencies()
    for name, provider in container.providers.items():
        assert provider() is not None, name
    assert container.tools()[0] is container.tools()[0]
