"""A port for a daemon that dies and comes back at the same place."""

import random
import socket
from contextlib import suppress

# Below what any kernel gives away by itself, to a listener or to a connection that goes out.
_OURS = range(20_000, 30_000)


def a_port_to_keep() -> int:
    """One that is free, and that nobody else on this machine is given meanwhile."""
    for port in random.sample(_OURS, 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("a hundred ports were taken")
