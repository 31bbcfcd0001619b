"""The launch pad's composition root. Its last argument is its socket's number."""

import socket
import sys

if __name__ == "__main__":
    from roost.pad.warm_up import sources, warm_up
    from sessions.infrastructure.pad_process import serve_pad

    serve_pad(socket.socket(fileno=int(sys.argv[-1])), warm_up, sources())
