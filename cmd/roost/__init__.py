"""The programs of roost, their composition roots, and the public door for programs that embed it.

    from roost import AgentConnection, Reducer, connect

The names are loaded when they are used: every program of roost imports this package, and most of
them need neither.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agui.stream.reducer import Reducer as Reducer
    from connection.port import AgentConnection as AgentConnection
    from roost.embedded.connecting import connect as connect

__all__ = ["AgentConnection", "Reducer", "connect"]


def __getattr__(name: str) -> object:
    if name == "connect":
        from roost.embedded.connecting import connect

        return connect
    if name == "AgentConnection":
        from connection.port import AgentConnection

        return AgentConnection
    if name == "Reducer":
        from agui.stream.reducer import Reducer

        return Reducer
    raise AttributeError(f"module 'roost' has no attribute {name!r}")
