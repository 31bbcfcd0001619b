"""The Bot API on a port of this machine, as strict as the real one, and as unreliable as told.

Features: long polling with confirmation by offset, one row of message ids for all private chats,
HTML that is really parsed, limits, files both ways, edits that change nothing are refused, and
troubles: `429`, `409`, `500`, pages that are no answer, a connection cut before (`cut`) or after
(`lost`) it was done, and answers that wait until they are let go (an event).
"""

import asyncio  # noqa: TID251 - the server library's own
import json
import socket
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from aiohttp import web

from tests.channels import strict_html

TOKEN = "4242:fake-token-of-a-test"
BOT = 4242
PERSON = 1001
GROUP = -1_000_000_000_777


@dataclass(slots=True)
class Shown:
    """A message as a person sees it now."""

    id: int
    text: str
    markup: str | None = None
    buttons: list[list[dict[str, str]]] = field(default_factory=list[list[dict[str, str]]])
    file: tuple[str, bytes] | None = None
    kind: str = "message"
    silent: bool = False
    reply_to: int | None = None
    edits: int = 0

    @property
    def labels(self) -> list[str]:
        return [button["text"] for row in self.buttons for button in row]


class Refusal(Exception):
    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.status = status
        self.parameters = parameters


@dataclass(frozen=True, slots=True)
class Page:
    """What stands between us and the service answers in its place."""

    body: str


class FakeTelegram:
    """Every chat, as the bot and its people see it."""

    def __init__(self) -> None:
        self.chats: dict[int, list[Shown]] = defaultdict(list)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.acknowledged: list[tuple[str, str]] = []
        self.commands: list[dict[str, str]] = []
        self.troubles: dict[str, deque[Any]] = defaultdict(deque)
        self.blocked: set[int] = set()
        self.files: dict[str, bytes] = {}
        self.is_down = False
        self.confirmed = 0
        self.port = 0
        self._updates: deque[dict[str, Any]] = deque()
        self._next_update = 700_000
        self._ids: dict[int, int] = defaultdict(lambda: 10)
        self._changed = asyncio.Event()

    # What people do

    def writes(self, text: str, chat: int = PERSON, person: int = PERSON, **more: Any) -> int:
        """A person writes. Returns the message's id."""
        message = self._message(chat, person) | {"text": text} | more
        if "photo" in more or "document" in more or "voice" in more:
            message["caption"] = message.pop("text")
        self._update(message=message)
        return int(message["message_id"])

    def replies(self, text: str, to: Shown, chat: int = PERSON) -> None:
        original = self._message(chat, BOT) | {"message_id": to.id, "text": to.text}
        self.writes(text, chat, reply_to_message=original)

    def presses(self, label: str, shown: Shown, chat: int = PERSON, person: int = PERSON) -> None:
        data = next(b["callback_data"] for row in shown.buttons for b in row if label in b["text"])
        self.presses_data(data, shown.id, chat, person)

    def presses_data(
        self, data: str, message_id: int, chat: int = PERSON, person: int = PERSON
    ) -> None:
        message = self._message(chat, BOT) | {"message_id": message_id, "text": "x"}
        query = {"id": str(self._next_update), "from": _user(person), "message": message}
        self._update(callback_query={**query, "chat_instance": "1", "data": data})

    def sends_file(self, content: bytes, mime_type: str, name: str, **more: Any) -> int:
        file_id = f"file-{len(self.files)}"
        self.files[file_id] = content
        document = {
            "file_id": file_id, "file_unique_id": file_id, "file_name": name,
            "mime_type": mime_type, "file_size": len(content),
        }  # fmt: skip
        return self.writes(more.pop("text", ""), document=document, **more)

    def sends_photo(self, content: bytes, text: str = "", **more: Any) -> int:
        self.files["small"], self.files["large"] = b"thumbnail", content
        photo = [
            {"file_id": n, "file_unique_id": n, "width": w, "height": w, "file_size": len(c)}
            for n, w, c in (("small", 90, b"thumbnail"), ("large", 900, content))
        ]
        return self.writes(text, photo=photo, **more)

    def happens(self, **what: Any) -> None:
        """An update of any kind and shape."""
        self._update(**what)

    def _message(self, chat: int, person: int) -> dict[str, Any]:
        kind = "private" if chat > 0 else "supergroup"
        return {
            "message_id": self._new_id(chat), "date": 1, "from": _user(person),
            "chat": {"id": chat, "type": kind, "first_name": "P", "title": "G"},
        }  # fmt: skip

    def _update(self, **what: Any) -> None:
        self._updates.append({"update_id": self._next_update, **what})
        self._next_update += 1
        self.stir()

    def _new_id(self, chat: int) -> int:
        row = chat if chat < -(10**12) else 0
        self._ids[row] += 1
        return self._ids[row]

    # What a test sees and does

    def texts(self, chat: int = PERSON) -> list[str]:
        return [shown.text for shown in self.chats[chat]]

    async def until(
        self, where: Callable[[Shown], bool], chat: int = PERSON, patience: float = 120.0
    ) -> Shown:
        """The newest message that fits, once there is one."""
        with anyio.move_on_after(patience):
            while True:
                for shown in reversed(self.chats[chat]):
                    if where(shown):
                        return shown
                await self._changed.wait()
        raise AssertionError(f"it did not come; there is {self.chats[chat]}")

    async def until_text(self, part: str, chat: int = PERSON) -> Shown:
        return await self.until(lambda shown: part in shown.text, chat)

    async def until_true(self, is_so: Callable[[], bool], patience: float = 120.0) -> None:
        with anyio.fail_after(patience):
            while not is_so():
                await self._changed.wait()

    def count(self, method: str) -> int:
        return sum(name == method for name, _ in self.calls)

    def stir(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # The API

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Yields the address for `telegram.api_url`."""
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/bot{token}/{method}", self._answer)
        app.router.add_get("/file/bot{token}/{path}", self._file)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        await web.SockSite(runner, listener).start()
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            self.is_down = True
            self.stir()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if self.is_down:
            return self._cut(request)
        if request.match_info["token"] != TOKEN:
            return _error(Refusal(401, "Unauthorized"))
        arguments, files = await _arguments(request)
        self.calls.append((method, arguments))
        self.stir()
        trouble = self.troubles[method].popleft() if self.troubles[method] else None
        if trouble == "cut":
            return self._cut(request)
        if isinstance(trouble, Refusal):
            return _error(trouble)
        if isinstance(trouble, Page):
            return web.Response(text=trouble.body)
        try:
            result = await getattr(self, f"_{method}")(arguments, files)
        except Refusal as refusal:
            return _error(refusal)
        self.stir()
        if isinstance(trouble, asyncio.Event):
            await trouble.wait()
        if trouble == "lost":
            return self._cut(request)
        return web.json_response({"ok": True, "result": result})

    def _cut(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _file(self, request: web.Request) -> web.StreamResponse:
        content = self.files.get(request.match_info["path"])
        if self.is_down or content is None:
            return web.Response(status=404)
        return web.Response(body=content)

    async def _getMe(self, arguments: Any, files: Any) -> Any:
        return _user(BOT) | {"username": "roost_test_bot", "is_bot": True}

    async def _setMyCommands(self, arguments: Any, files: Any) -> Any:
        self.commands = json.loads(arguments["commands"])
        return True

    async def _getUpdates(self, arguments: Any, files: Any) -> Any:
        offset = int(arguments.get("offset", 0))
        while self._updates and self._updates[0]["update_id"] < offset:
            self.confirmed = self._updates.popleft()["update_id"]
        self.stir()
        with anyio.move_on_after(int(arguments.get("timeout", 0))):
            while not self._updates and not self.is_down:
                await self._changed.wait()
        return list(self._updates)[: int(arguments.get("limit", 100))]

    async def _sendMessage(self, arguments: Any, files: Any) -> Any:
        text = _text(arguments, "text")
        if not text.strip():
            raise Refusal(400, "Bad Request: message text is empty")
        return self._show(arguments, text, "message", None)

    async def _sendPhoto(self, arguments: Any, files: Any) -> Any:
        file = files[arguments["photo"].removeprefix("attach://")]
        if len(file[1]) > 10 * 2**20 or b"not a picture" in file[1]:
            raise Refusal(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
        return self._show(arguments, _text(arguments, "caption"), "photo", file)

    async def _sendDocument(self, arguments: Any, files: Any) -> Any:
        file = files[arguments["document"].removeprefix("attach://")]
        return self._show(arguments, _text(arguments, "caption"), "document", file)

    def _show(
        self, arguments: dict[str, Any], text: str, kind: str, file: tuple[str, bytes] | None
    ) -> Any:
        chat = int(arguments["chat_id"])
        if chat in self.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        reply = json.loads(arguments.get("reply_parameters", "{}"))
        shown = Shown(
            id=self._new_id(chat),
            text=text.strip(),
            markup=arguments.get("text", arguments.get("caption")),
            buttons=_buttons(arguments),
            file=file,
            kind=kind,
            silent=arguments.get("disable_notification") == "true",
            reply_to=reply.get("message_id"),
        )
        self.chats[chat].append(shown)
        return self._as_message(chat, shown)

    def _as_message(self, chat: int, shown: Shown) -> Any:
        message = self._message(chat, BOT)
        self._ids[chat if chat < -(10**12) else 0] -= 1  # only looked at, not used up
        return {**message, "message_id": shown.id, "text": shown.text}

    def _editable(self, arguments: dict[str, Any]) -> tuple[int, Shown]:
        chat, number = int(arguments["chat_id"]), int(arguments["message_id"])
        if chat in self.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        shown = next((shown for shown in self.chats[chat] if shown.id == number), None)
        if shown is None:
            raise Refusal(400, "Bad Request: message to edit not found")
        return chat, shown

    async def _editMessageText(self, arguments: Any, files: Any) -> Any:
        return self._edit(arguments, _text(arguments, "text"), _buttons(arguments))

    async def _editMessageCaption(self, arguments: Any, files: Any) -> Any:
        return self._edit(arguments, _text(arguments, "caption"), _buttons(arguments))

    async def _editMessageReplyMarkup(self, arguments: Any, files: Any) -> Any:
        _, shown = self._editable(arguments)
        return self._edit(arguments, shown.text, _buttons(arguments))

    def _edit(self, arguments: dict[str, Any], text: str, buttons: Any) -> Any:
        chat, shown = self._editable(arguments)
        if (text.strip(), buttons) == (shown.text, shown.buttons):
            raise Refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply"
                " markup are exactly the same as a current content and reply markup of the message",
            )
        shown.text, shown.buttons = text.strip(), buttons
        shown.edits += 1
        return self._as_message(chat, shown)

    async def _answerCallbackQuery(self, arguments: Any, files: Any) -> Any:
        self.acknowledged.append((arguments["callback_query_id"], arguments.get("text", "")))
        return True

    async def _getFile(self, arguments: Any, files: Any) -> Any:
        file_id = arguments["file_id"]
        size = len(self.files[file_id])
        return {
            "file_id": file_id, "file_unique_id": file_id, "file_size": size, "file_path": file_id,
        }  # fmt: skip


def _user(person: int) -> dict[str, Any]:
    return {"id": person, "is_bot": person == BOT, "first_name": "Ada" if person == PERSON else "X"}


def _buttons(arguments: dict[str, Any]) -> list[list[dict[str, str]]]:
    markup = json.loads(arguments.get("reply_markup") or "{}")
    rows: list[list[dict[str, str]]] = markup.get("inline_keyboard", [])
    for row in rows:
        for button in row:
            if not 1 <= len(button["callback_data"].encode()) <= 64 or not button["text"]:
                raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
    return rows


def _text(arguments: dict[str, Any], name: str) -> str:
    text = str(arguments.get(name, ""))
    if arguments.get("parse_mode") == "HTML":
        try:
            text, _ = strict_html.read(text)
        except strict_html.BadHtml as exc:
            raise Refusal(400, f"Bad Request: {exc}") from exc
    if strict_html.units(text.strip()) > (strict_html.LONGEST if name == "text" else 1024):
        raise Refusal(400, "Bad Request: message is too long")
    return text


async def _arguments(
    request: web.Request,
) -> tuple[dict[str, Any], dict[str, tuple[str, bytes]]]:
    arguments: dict[str, Any] = dict(request.query)
    files: dict[str, tuple[str, bytes]] = {}
    posted = await request.post()
    for name, value in posted.items():
        if isinstance(value, web.FileField):
            files[name] = (value.filename, value.file.read())
            value.file.close()
        else:
            arguments[name] = value.decode() if isinstance(value, (bytes, bytearray)) else value
    return arguments, files


def _error(refusal: Refusal) -> web.Response:
    answer: dict[str, Any] = {
        "ok": False, "error_code": refusal.status, "description": str(refusal),
    }  # fmt: skip
    if refusal.parameters:
        answer["parameters"] = refusal.parameters
    return web.json_response(answer, status=refusal.status)


def too_many(seconds: int) -> Refusal:
    return Refusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


def conflict() -> Refusal:
    return Refusal(409, "Conflict: terminated by other getUpdates request")
