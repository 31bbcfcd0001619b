"""The commands on a conversation's history: its tree, its copies, its names, its files.

What changes it is decided on the history as it is then, in its turn; the tree keeps everything.
"""

from collections.abc import Callable, Mapping, Sequence

from agent.commands import Command, CommandFailed
from agent.domain.entries import Begun, Entry, Labelled, Named, encode_entry
from agent.domain.ports import Archive, BadFile
from agent.domain.project import title_of
from agent.domain.rendering import html_page, markdown_page
from agent.domain.statistics import statistics
from agent.domain.tree import Tree, UnknownNode, copy, imported, navigation
from agent.recorder import Recorder

LONGEST_NAME = 200
Args = Mapping[str, object]


# How many messages one page of a long history has at most.
MOST_EARLIER = 1000


class HistoryCommands:
    """`moved` is called when the conversation is at another place: its messages are others."""

    def __init__(
        self,
        recorder: Recorder,
        archive: Archive,
        new_id: Callable[[], str],
        moved: Callable[[], None],
    ) -> None:
        self._rec = recorder
        self._archive = archive
        self._new_id = new_id
        self._moved = moved
        self.known: dict[str, Command] = {
            "get_tree": self._get_tree,
            "navigate_tree": self._navigate_tree,
            "fork": self._fork,
            "set_label": self._set_label,
            "set_name": self._set_name,
            "get_name": self._get_name,
            "get_messages": self._get_messages,
            "get_earlier_messages": self._get_earlier_messages,
            "get_user_messages_for_forking": self._get_user_messages,
            "get_last_assistant_text": self._get_last_assistant_text,
            "get_stats": self._get_stats,
            "export": self._export,
            "import_jsonl": self._import_jsonl,
        }

    async def _get_tree(self, _: Args) -> object:
        tree = Tree(await self._rec.read())
        return {"nodes": [node.shown() for node in tree.nodes()], "leafId": tree.leaf}

    async def _navigate_tree(self, args: Args) -> object:
        target, label = _optional_text(args, "id"), _optional_text(args, "label")
        text = ""

        def decision(entries: Sequence[Entry]) -> list[Entry]:
            nonlocal text
            self._check_at_rest()
            try:
                moving, text = navigation(entries, target, self._new_id)
            except UnknownNode:
                raise _unknown_entry() from None
            if label and target is not None:
                moving.append(Labelled(message_id=target, label=label))
            return moving

        await self._rec.go_to(decision)
        self._moved()
        last = self._rec.conversation.transcript.visible()[-1:]
        return {"editorText": text, "leafId": last[0].id if last else None}

    async def _fork(self, args: Args) -> object:
        target, position = _optional_text(args, "id"), args.get("position")
        if position not in (None, "before", "at"):
            raise CommandFailed("bad_arguments", "position must be 'before' or 'at'.")
        entries = await self._rec.read()
        tree = Tree(entries)
        text, place = "", entries[-1].id if entries else None
        if target is not None:
            try:
                node = tree.node(target)
            except UnknownNode:
                raise _unknown_entry() from None
            is_before = position == "before" or (position is None and node.role == "user")
            place = node.first if is_before else node.last
            text = tree.text(node) if is_before and node.role == "user" else ""
        conversation_id = self._new_id()
        begun = self._begun(conversation_id, entries)
        await self._archive.create(conversation_id, copy(entries, place, begun, self._new_id))
        return {"conversationId": conversation_id, "selectedText": text}

    def _begun(self, conversation_id: str, entries: list[Entry]) -> Begun:
        first = entries[0] if entries else None
        return Begun(
            conversation_id=conversation_id,
            project_dir=first.project_dir if isinstance(first, Begun) else "",
            forked_from=self._rec.conversation.conversation_id,
            at=self._rec.now(),
        )

    async def _set_label(self, args: Args) -> object:
        message_id, label = _text(args, "id"), _optional_text(args, "label")
        if message_id not in {node.message.id for node in Tree(await self._rec.read()).nodes()}:
            raise _unknown_entry()
        label = _short(label, "label") if label else None
        await self._rec.record(Labelled(message_id=message_id, label=label))
        return {}

    async def _set_name(self, args: Args) -> object:
        name = _short(_text(args, "name"), "name")
        await self._rec.record(Named(name=name))
        return {"name": name}

    async def _get_name(self, _: Args) -> object:
        named = self._rec.conversation.name
        return {"name": named.name if named else None, "title": self._title()}

    async def _get_messages(self, _: Args) -> object:
        return {"messages": self._rec.conversation.transcript.visible()}

    async def _get_earlier_messages(self, args: Args) -> object:
        before, limit = _place(args, "before"), min(_place(args, "limit"), MOST_EARLIER)
        return self._rec.conversation.transcript.page(before, limit)._asdict()

    async def _get_user_messages(self, _: Args) -> object:
        messages = self._rec.conversation.transcript.visible()
        return {"messages": [{"id": m.id, "text": m.text} for m in messages if m.role == "user"]}

    async def _get_last_assistant_text(self, _: Args) -> object:
        messages = self._rec.conversation.transcript.visible()
        texts = (m.text for m in reversed(messages) if m.role == "assistant" and m.text)
        return {"text": next(texts, None)}

    async def _get_stats(self, _: Args) -> object:
        return statistics(self._rec.conversation, await self._rec.read())

    async def _export(self, args: Args) -> object:
        entries = await self._rec.read()
        messages = self._rec.conversation.transcript.visible()
        match args.get("format", "jsonl"):
            case "jsonl":
                suffix, data = "jsonl", b"".join(encode_entry(entry) for entry in entries)
            case "markdown":
                suffix, data = "md", markdown_page(self._title(), messages).encode()
            case "html":
                suffix, data = "html", html_page(self._title(), messages).encode()
            case _:
                raise CommandFailed("bad_arguments", "format must be jsonl, markdown or html.")
        name = f"{self._rec.conversation.conversation_id}.{suffix}"
        path, overwrite = _optional_text(args, "path"), args.get("overwrite") is True
        try:
            written = await self._archive.write(name, data, path, overwrite=overwrite)
        except BadFile as exc:
            raise CommandFailed("bad_file", str(exc)) from exc
        return {"path": written}

    async def _import_jsonl(self, args: Args) -> object:
        try:
            entries = await self._archive.read(_text(args, "path"))
        except BadFile as exc:
            raise CommandFailed("bad_file", str(exc)) from exc
        conversation_id = self._new_id()
        begun = self._begun(conversation_id, entries)
        begun.forked_from = None
        await self._archive.create(conversation_id, imported(entries, begun, self._new_id))
        return {"conversationId": conversation_id}

    def _title(self) -> str:
        conversation = self._rec.conversation
        if conversation.name is not None:
            return conversation.name.name
        texts = (m.text for m in conversation.transcript.visible() if m.role == "user")
        return title_of(next(texts, "")) or "(no text)"

    def _check_at_rest(self) -> None:
        """Nobody is led away from what goes on. Raises CommandFailed."""
        conversation = self._rec.conversation
        if conversation.suspended is not None:
            raise CommandFailed("suspended", "The run waits for a decision: answer that first.")
        if conversation.open_run is not None or conversation.queue:
            raise CommandFailed(
                "busy", "A run goes on, or messages wait: stop or clear them first."
            )


def _unknown_entry() -> CommandFailed:
    return CommandFailed("unknown_entry", "There is no message with this id in the history.")


def _text(args: Args, name: str) -> str:
    value = args.get(name)
    if not isinstance(value, str) or not value.strip():
        raise CommandFailed("bad_arguments", f"{name} must be a string that is not empty.")
    return value


def _optional_text(args: Args, name: str) -> str | None:
    return None if args.get(name) is None else _text(args, name)


def _short(value: str, name: str) -> str:
    value = " ".join(value.split())
    if len(value) > LONGEST_NAME:
        raise CommandFailed("bad_arguments", f"{name} must have at most {LONGEST_NAME} characters.")
    return value


def _place(args: Args, name: str) -> int:
    value = args.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise CommandFailed("bad_arguments", f"{name} must be a number from 0 on.")
    return value
