"""What is used of a server class that is not documented API. Read this when uvicorn's pin moves."""

import inspect

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from agui.uvicorn_http import BindingHttp
from agui.uvicorn_protocol import BindingWebSocket


def test_the_pinned_server_is_the_one_this_was_written_for() -> None:
    assert uvicorn.__version__ == "0.54.0"


def test_the_methods_that_are_overridden_exist_with_these_parameters() -> None:
    for name in ("run_asgi", "keepalive_timeout", "handle_parser_exception", "stop_keepalive"):
        theirs = inspect.signature(getattr(WebSocketsSansIOProtocol, name))
        ours = inspect.signature(getattr(BindingWebSocket, name))
        assert list(theirs.parameters) == list(ours.parameters) == ["self"]


def test_the_methods_of_the_http_side_exist_with_these_parameters() -> None:
    for name in (
        "connection_made",
        "connection_lost",
        "data_received",
        "handle_websocket_upgrade",
    ):
        theirs = inspect.signature(getattr(H11Protocol, name))
        ours = inspect.signature(getattr(BindingHttp, name))
        assert list(theirs.parameters) == list(ours.parameters)
    source = inspect.getsource(H11Protocol.__init__)
    for name in ("connections", "cycle", "transport", "loop"):
        assert f"self.{name}" in source


def test_the_attributes_that_are_used_are_set_by_the_constructor() -> None:
    source = inspect.getsource(WebSocketsSansIOProtocol.__init__)
    for name in (
        "close_sent",
        "close_timer",
        "conn",
        "disconnected",
        "loop",
        "queue",
        "read_paused",
        "transport",
        "writable",
    ):
        assert f"self.{name}" in source


def test_the_server_has_the_steps_that_are_overridden() -> None:
    for name in ("main_loop", "capture_signals", "shutdown", "serve"):
        assert hasattr(uvicorn.Server, name)
    assert "self.servers" in inspect.getsource(uvicorn.Server.startup)
