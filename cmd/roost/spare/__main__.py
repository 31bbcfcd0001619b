"""The warm spare's composition root. It becomes the worker that its stdin tells of."""

import sys

if __name__ == "__main__":
    from roost.pad.warm_up import sources, warm_up
    from sessions.infrastructure.spare_process import serve_spare

    serve_spare(warm_up, sources(), (sys.executable, "-P", "-m", "roost"))
