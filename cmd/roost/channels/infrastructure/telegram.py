"""Telegram behind the messaging port, through aiogram's client of the Bot API.

Only its `Bot` is used: our own loop asks for updates, so that an update is confirmed when what it
led to is on disk. Needs the asyncio event loop. Errors are translated here, and hold no token.

Importing this module takes seconds of processor time and a hundred megabytes: aiogram builds a
model for each of Telegram's types. So it is imported when a channel runs, in a thread of its own.
"""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import structlog
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    AiogramError,
    ClientDecodeError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.methods.base import Response
from aiogram.types import (
    BotCommand,
    BufferedInputFile,
    CallbackQuery,
    File,
    FSInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputFile,
    LinkPreviewOptions,
    Message,
    ReplyParameters,
    User,
)
from aiogram.types import Update as TelegramUpdate
from aiohttp import ClientError, ClientResponseError
from pydantic import ValidationError

from roost.channels.domain.markdown import render
from roost.channels.domain.messages import (
    ChatId,
    Chunk,
    InFile,
    MessageId,
    OutFile,
    Outgoing,
    Pressed,
    Sender,
    Update,
    Written,
)
from roost.channels.domain.ports import (
    BadToken,
    ChatClosed,
    Contested,
    Limits,
    MarkupRefused,
    MessagingError,
    Refused,
    TryLater,
    Unreachable,
)
from roost.channels.domain.spans import units
from roost.channels.domain.telegram_html import chunks

API_URL = "https://api.telegram.org"
_REQUEST_TIMEOUT = 30
_FILE_TIMEOUT = 120
# A lost message is looked for among so many behind the last that is known. In private chats one
# row of numbers is shared by all chats of a bot, so others may be between.
_LOOK_BEHIND = 30
_SUPERGROUPS = -(10**12)
_LONGEST_CAPTION = 1024
_LONGEST_ANSWER = 200
_UPDATES = ["message", "callback_query"]
_GONE = (
    "chat not found",
    "user is deactivated",
    "not enough rights",
    "have no rights",
    "need administrator rights",
    "chat_write_forbidden",
    "bot was kicked",
    "group chat was deactivated",
)
_NOT_OURS = ("message to edit not found", "message can't be edited", "message_id_invalid")
_NOT_MODIFIED = "message is not modified"
_UNSUPPORTED = {
    "voice": "voice messages",
    "video_note": "video messages",
    "sticker": "stickers",
    "location": "locations",
    "contact": "contacts",
    "poll": "polls",
}

log = structlog.get_logger()


class Telegram:
    """One bot. Implements `Messaging`."""

    def __init__(
        self,
        token: str,
        api_url: str = API_URL,
        poll_timeout: float = 30.0,
        limits: Limits | None = None,
    ) -> None:
        """Raises BadToken when the token can't be one."""
        if not _is_token(token):
            raise BadToken("it does not look like a bot's token; @BotFather gives one")
        self._secret = token.partition(":")[2]
        self._poll_timeout = max(1, round(poll_timeout))
        self._session = AiohttpSession(
            api=TelegramAPIServer.from_base(api_url), timeout=_REQUEST_TIMEOUT
        )
        self._bot = Bot(token, session=self._session)
        self.limits = limits or Limits()
        _warm_up(self._bot)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Leaving it closes its connections."""
        try:
            yield
        finally:
            await self._session.close()

    # Receives

    async def receive(self, after: int | None) -> Sequence[Update]:
        offset = None if after is None else after + 1
        try:
            with self._translated():
                found = await self._bot.get_updates(
                    offset=offset,
                    timeout=self._poll_timeout,
                    allowed_updates=_UPDATES,
                    request_timeout=self._poll_timeout + _REQUEST_TIMEOUT,
                )
        except Unreachable as exc:
            if isinstance(exc.__cause__, ClientDecodeError):
                return _one_by_one(exc.__cause__)
            raise
        return [_update(update) for update in found]

    async def fetch(self, file: InFile, largest: int) -> bytes:
        with self._translated():
            found = await self._bot.get_file(file.id)
            if found.file_path is None or (found.file_size or 0) > largest:
                raise Refused(f"it is larger than {largest:,} bytes")
            url = self._session.api.file_url(self._bot.token, found.file_path)
            content = bytearray()
            async for part in self._session.stream_content(url, timeout=_FILE_TIMEOUT):
                content += part
                if len(content) > largest:
                    raise Refused(f"it is larger than {largest:,} bytes")
        return bytes(content)

    # Sends

    async def send(self, chat: ChatId, message: Outgoing) -> MessageId:
        text, mode = _body(message)
        common: dict[str, Any] = {
            "chat_id": chat,
            "parse_mode": mode,
            "reply_markup": _keyboard(message),
            "disable_notification": message.silent or None,
            "reply_parameters": _reply(message),
        }
        if message.file is None:
            with self._translated():
                sent = await self._bot.send_message(
                    text=text, link_preview_options=LinkPreviewOptions(is_disabled=True), **common
                )
            return MessageId(sent.message_id)
        return await self._send_file(message.file, {"caption": text or None, **common})

    async def _send_file(self, file: OutFile, common: dict[str, Any]) -> MessageId:
        content = _content(file, self.limits.largest_file)
        is_photo = file.is_image and _size(file) <= self.limits.largest_image
        if is_photo:
            try:
                with self._translated():
                    photo = await self._bot.send_photo(
                        photo=content, request_timeout=_FILE_TIMEOUT, **common
                    )
                return MessageId(photo.message_id)
            except MarkupRefused:
                raise
            except Refused:
                pass  # too long or too wide for a photo: as a file it may go
        with self._translated():
            sent = await self._bot.send_document(
                document=content, request_timeout=_FILE_TIMEOUT, **common
            )
        return MessageId(sent.message_id)

    async def edit(self, chat: ChatId, message_id: MessageId, message: Outgoing) -> None:
        text, mode = _body(message)
        common: dict[str, Any] = {
            "chat_id": chat,
            "message_id": message_id,
            "parse_mode": mode,
            "reply_markup": _keyboard(message),
        }
        try:
            with self._translated():
                if message.file is not None:
                    await self._bot.edit_message_caption(caption=text, **common)
                else:
                    preview = LinkPreviewOptions(is_disabled=True)
                    await self._bot.edit_message_text(
                        text=text, link_preview_options=preview, **common
                    )
        except Refused as exc:
            if _NOT_MODIFIED not in str(exc):
                raise

    async def find(self, chat: ChatId, place: int, message: Outgoing) -> MessageId | None:
        """Tries the next ids: giving a message the buttons it has changes nothing, but tells.

        Telegram has no key that would make it take a message once only, and no way to read a chat.
        """
        for number in range(place + 1, place + 1 + _LOOK_BEHIND):
            try:
                with self._translated():
                    await self._bot.edit_message_reply_markup(
                        chat_id=chat, message_id=number, reply_markup=_keyboard(message)
                    )
            except Refused as exc:
                if _NOT_MODIFIED not in str(exc):
                    continue
            return MessageId(number)
        return None

    # Shows

    def chunks(self, markdown: str) -> Sequence[Chunk]:
        return chunks(render(markdown).spans)

    def place(self, chat: ChatId, last: Mapping[ChatId, int]) -> int:
        """Supergroups number their messages themselves; all other chats of a bot do it together."""
        if chat < _SUPERGROUPS:
            return last.get(chat, 0)
        return max((id_ for other, id_ in last.items() if other >= _SUPERGROUPS), default=0)

    # Announces

    async def acknowledge(self, press: str, words: str) -> None:
        with suppress(MessagingError), self._translated():
            await self._bot.answer_callback_query(press, text=words[:_LONGEST_ANSWER] or None)

    async def introduce(self, commands: Sequence[tuple[str, str]]) -> str:
        with self._translated():
            me = await self._bot.get_me()
            menu = [BotCommand(command=name, description=says[:256]) for name, says in commands]
            await self._bot.set_my_commands(menu)
        return me.username or ""

    @contextmanager
    def _translated(self) -> Generator[None]:
        """aiogram's errors as those of the port, without the token."""
        try:
            yield
        except MessagingError:
            raise
        except (AiogramError, ClientError, OSError, TimeoutError) as exc:
            raise _translation(exc, self._secret) from exc


def _translation(exc: Exception, secret: str) -> MessagingError:
    says = str(getattr(exc, "message", exc)).replace(secret, "…")
    match exc:
        case TelegramRetryAfter():
            return TryLater(exc.retry_after)
        case TelegramBadRequest() if "can't parse entities" in says:
            return MarkupRefused(says)
        case TelegramBadRequest() if any(words in says.lower() for words in _GONE):
            return ChatClosed(says)
        case TelegramBadRequest() | TelegramEntityTooLarge():
            return Refused(says)
        case ClientResponseError() if exc.status < 500:
            return Refused(f"HTTP {exc.status}")
        case TelegramForbiddenError() | TelegramMigrateToChat():
            return ChatClosed(says)
        case TelegramConflictError():
            return Contested(says)
        case TelegramUnauthorizedError() | TelegramNotFound():
            return BadToken(says)
        case _:
            return Unreachable(says.splitlines()[0] if says else type(exc).__name__)


def _is_token(token: str) -> bool:
    number, colon, rest = token.partition(":")
    return number.isdecimal() and bool(colon and rest) and not any(c.isspace() for c in token)


def _warm_up(bot: Bot) -> None:
    """Have the models built that are needed later: their first use would hold up the event loop."""
    kinds: tuple[Any, ...] = (list[TelegramUpdate], Message, User, File, Message | bool, bool)
    for kind in kinds:
        with suppress(ValidationError):
            response = cast(Any, Response)[kind]
            response.model_validate({"ok": True, "result": []}, context={"bot": bot})


# What Telegram says, in the port's words


def _one_by_one(exc: ClientDecodeError) -> Sequence[Update]:
    """Updates of which one makes no sense to aiogram. It is let go; the others count."""
    data: object = exc.data
    found: object = cast("dict[str, Any]", data).get("result") if isinstance(data, dict) else None
    updates: list[Update] = []
    for entry in cast("Sequence[object]", found if isinstance(found, list) else ()):
        try:
            updates.append(_update(TelegramUpdate.model_validate(entry)))
        except ValidationError:
            is_object = isinstance(entry, dict)
            number: object = cast("dict[str, Any]", entry).get("update_id") if is_object else None
            if not isinstance(number, int):
                continue
            log.warning("update_not_understood", update=number)
            updates.append(Update(number, None))
    if not updates:
        raise Unreachable("the answer is not one of the Bot API") from exc
    return updates


def _update(update: TelegramUpdate) -> Update:
    what: Written | Pressed | None = None
    if update.message is not None:
        what = _written(update.message)
    elif update.callback_query is not None:
        what = _pressed(update.callback_query)
    return Update(update.update_id, what)


def _written(message: Message) -> Written | None:
    if message.chat.type == "channel":
        return None
    return Written(
        sender=_sender(message, message.from_user),
        id=MessageId(message.message_id),
        text=message.text or message.caption or "",
        reply_to=_replied_to(message),
        files=tuple(_files(message)),
        unsupported=next(
            (words for name, words in _UNSUPPORTED.items() if getattr(message, name) is not None),
            None,
        ),
    )


def _sender(message: Message, person: User | None) -> Sender:
    # Who writes in the name of a chat is nobody in particular.
    known = person is not None and not person.is_bot and message.sender_chat is None
    return Sender(
        chat=ChatId(message.chat.id),
        person=person.id if person is not None and known else None,
        name=person.full_name if person is not None else "",
        is_group=message.chat.type != "private",
    )


def _replied_to(message: Message) -> MessageId | None:
    replied = message.reply_to_message
    return MessageId(replied.message_id) if replied is not None else None


def _files(message: Message) -> Generator[InFile]:
    if message.photo:
        photo = message.photo[-1]  # the largest
        name = f"photo-{message.message_id}.jpg"
        yield InFile(id=photo.file_id, name=name, mime_type="image/jpeg", size=photo.file_size)
    for file, name, kind in (
        (message.document, f"file-{message.message_id}", "application/octet-stream"),
        (message.video, f"video-{message.message_id}.mp4", "video/mp4"),
        (message.audio, f"audio-{message.message_id}", "audio/mpeg"),
    ):
        if file is not None:
            yield InFile(
                id=file.file_id,
                name=file.file_name or name,
                mime_type=file.mime_type or kind,
                size=file.file_size,
            )


def _pressed(query: CallbackQuery) -> Pressed | None:
    if query.message is None or query.data is None:
        return None
    chat = query.message.chat
    person = query.from_user
    return Pressed(
        sender=Sender(
            chat=ChatId(chat.id),
            person=person.id,
            name=person.full_name,
            is_group=chat.type != "private",
        ),
        id=query.id,
        message=MessageId(query.message.message_id),
        name=query.data,
    )


# What we say, in Telegram's


def _body(message: Outgoing) -> tuple[str, str | None]:
    """Text and parse mode. A caption has a limit of its own."""
    chunk = message.chunk
    too_long = message.file is not None and units(chunk.plain) > _LONGEST_CAPTION
    if message.as_plain or too_long:
        text = chunk.plain[: _LONGEST_CAPTION // 2] if too_long else chunk.plain
        return text, None
    return chunk.markup, "HTML"


def _keyboard(message: Outgoing) -> InlineKeyboardMarkup | None:
    rows = [
        [InlineKeyboardButton(text=label, callback_data=name) for label, name in row]
        for row in message.buttons
    ]
    return InlineKeyboardMarkup(inline_keyboard=rows) if rows else None


def _reply(message: Outgoing) -> ReplyParameters | None:
    if message.reply_to is None:
        return None
    return ReplyParameters(message_id=message.reply_to, allow_sending_without_reply=True)


def _content(file: OutFile, largest: int) -> InputFile:
    """Raises Refused when there is nothing to send."""
    size = _size(file)
    if not 0 < size <= largest:
        raise Refused(f"{size:,} bytes can't be sent")
    # Names of files are anybody's; those of a multipart form have to be plain.
    name = "".join(c if c.isalnum() or c in "._- " else "_" for c in file.name) or "file"
    if file.text is not None:
        return BufferedInputFile(file.text.encode(errors="replace"), filename=name)
    return FSInputFile(file.path or "", filename=name)


def _size(file: OutFile) -> int:
    if file.text is not None:
        return len(file.text.encode(errors="replace"))
    try:
        return Path(file.path or "").stat().st_size
    except OSError as exc:
        raise Refused(f"it can't be read: {exc.strerror}") from exc
