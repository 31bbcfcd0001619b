"""A warm spare of the scripted worker: `<python> scripted_spare.py <watched> [<word> …]`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).parents[3]
    sys.path[:0] = [str(ROOT), str(ROOT / "cmd")]
    from sessions.infrastructure.spare_process import serve_spare
    from tests.support.workers.scripted_pad import scripted

    fresh = (sys.executable, str(Path(__file__).with_name("scripted.py")), *sys.argv[2:])
    serve_spare(lambda: scripted(sys.argv[2:]), [Path(sys.argv[1])], fresh)
