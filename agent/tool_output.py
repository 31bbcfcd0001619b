"""What a running call prints, told while it runs: a little at a time, never faster than is read."""

import codecs

import anyio

from agent.domain.events import Custom
from agent.say import Say

NAME = "roost.tool_output"
# A command that ends sooner has its result only.
INTERVAL = 0.15
# Of what came in one interval the end is shown; the result has more.
MOST = 8 * 1024


class ToolOutput:
    """The output of one call. `serve` beside it, and give it what comes."""

    def __init__(self, say: Say, tool_call_id: str) -> None:
        self._say = say
        self._id = tool_call_id
        self._text = ""
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._more = anyio.Event()

    def __call__(self, data: bytes) -> None:
        """Take what came. Never waits."""
        self._text += self._decoder.decode(data)
        if (over := len(self._text) - MOST) > 0:
            self._left_out += over
            self._text = self._text[over:]
        self._more.set()

    def runs_as(self, pid: int) -> None:
        """Note the process, for whoever looks for it after a crash. Never waits."""
        self._say.recorder.note_process(self._id, pid)

    async def serve(self) -> None:
        """Tell it, for ever."""
        while True:
            await self._more.wait()
            await anyio.sleep(INTERVAL)
            await self._say.wait_writable()
            self._more = anyio.Event()
            text, self._text = self._text, ""
            left_out, self._left_out = self._left_out, 0
            value: dict[str, object] = {"toolCallId": self._id, "text": text}
            if left_out:
                value["leftOut"] = left_out
            if text:
                self._say(Custom(name=NAME, value=value))
