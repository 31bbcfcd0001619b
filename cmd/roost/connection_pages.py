"""The reference pages of the boundary, made from its code.

    python -m roost.connection_pages

writes docs/reference/agent-connection.md and docs/reference/local-protocol.md into the folder it is
run in. A test fails when the pages in the repository are others.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from connection import port
from connection.commands import COMMANDS, Command, Gate
from connection.negotiation import ADDED, REVISION, SCHEMA_ID, SERVER_CAPABILITIES
from connection.records import PROTOCOL, RECORDS, VERSION
from connection.unbuilt import Unbuilt

GROUPS = (
    port.Lifecycle,
    port.Reads,
    port.Input,
    port.Settings,
    port.Context,
    port.Replacement,
    port.Scheduling,
)

_PORT_PAGE = """# AgentConnection

Made from the code: `python -m roost.connection_pages`. The port itself, with its promises, is
[connection/port.py](../../connection/port.py); what a listener is told is in
[connection/events.py](../../connection/events.py), and what is raised in
[connection/failures.py](../../connection/failures.py).

```python
from roost import connect

async with connect(".") as agent:
    print(await agent.prompt_and_wait("hello"))
```

`connect` starts the daemon when none runs; `connect(".", in_process=True)` keeps the session in
this process. Both keep the same promises, which `tests/contracts/test_connection.py` holds; what a
process can't promise for itself, it does not: a session in it ends with it, and has no journal.

**The first screen**: subscribe, then ask for `get_initial_snapshot()`, show it, and feed it every
`SessionEvent` that it does not cover (`snapshot.covers(event.cursor)`). **After an outage** comes
`ConnectionStatus("reconnecting")`, one `SessionResynced`, then `ConnectionStatus("connected")`. A
resync without a snapshot means that nothing was missed for good: keep what is shown, since the
missed events follow. `Closed` comes once, and nothing after it.

**Messages and state** out of all that: `from roost import Reducer`. It begins with a snapshot
(`Reducer.beginning_with(snapshot.messages, state)`) and takes each event (`take`); its `messages`
and `state` are then what every AG-UI client holds. `Unplaceable` says that an event is missing.

An operation that is not built raises `CapabilityUnavailable` with the capability that it lacks; it
sends nothing. Of the events, `ExtensionUiRequest` and `HeartbeatsChanged` are typed and sent by
nobody yet.
"""

_PROTOCOL_PAGE = f"""# The local protocol `{PROTOCOL}`, version {VERSION}

Made from the code: `python -m roost.connection_pages`. This is what the daemon speaks on its unix
socket, which `run/daemon.json` names. Programs in Python need none of it: see
[agent-connection.md](agent-connection.md).

## Lines

One JSON object a line, LF only, both ways. The socket is this user's alone (folder 0700, socket
0600, the peer's user id is checked). The daemon speaks first: `daemon_hello`, once it is ready.
Commands travel in envelopes:

```json
{{"type": "command", "id": "daemon_1", "protocol": {{"name": "{PROTOCOL}", "version": {VERSION}}},
 "clientId": "daemon-agent-connection:<uuid>", "command": {{"type": "list"}}}}
```

Each is answered by exactly one `response` with its `id`:
`{{"id", "type": "response", "command", "success": true, "data"}}`, or `success: false` with `error`
(for people) and `errorInfo.code` (for programs). A line that is no envelope is answered, too, with
the `id` that could be found in it. Unknown record types are to be ignored.

**What changes something is done at most once.** A mutating command is recorded on the disk by
`clientId` and `id` before it is carried out, and its result with it. A client that lost the
connection sends the identical envelope again: it gets the recorded result, or waits for the one
that is being made, or is told `command_result_uncertain` when the daemon died in between. Another
command under an id that is remembered is refused with `command_id_taken`, in every state, and
nothing is done. A client says `ack_result` once it has a result, which is forgotten then. What
nobody acknowledges is remembered for 7 days, as long as it is one of the latest 20,000 commands and
their results have no more than 64 MiB together.

**An attach** is answered with `activeSessionId` (the first 12 hexadecimal digits of a hash over
project dir and conversation id, so that it survives restarts; more, where two threads begin alike),
the proved capabilities and a replay status. `complete` with a `resumeCursor`: exactly the missed
events follow. Otherwise a snapshot comes: in the response, or, for clients with `chunked_snapshot`
and above 512 KiB, as `session_snapshot_begin`, `_chunk`, `_end` right behind it; nothing of it
counts before its end. A client that does not keep up loses a session's events and gets one
catch-up: a snapshot with the purpose `resync`.

Limits of one connection: a line to the daemon 20 MiB; 1,024 live events or 8 MiB that wait; 256
commands on their way; a write that takes nothing for 10 s ends it.

## Revisions

A compatible addition raises the schema revision, and is gated by it, by a capability, or by both.
A client looks at the hello before it writes, so nothing unknown reaches an older daemon. This is
revision {REVISION}, `{SCHEMA_ID}`.
"""


def port_page() -> str:
    """docs/reference/agent-connection.md"""
    lines = [_PORT_PAGE]
    for group in GROUPS:
        says = (inspect.getdoc(group) or "").splitlines()[0]
        lines += [f"## {group.__name__}", "", says, "", "| operation | built | what it does |"]
        lines.append("| --- | --- | --- |")
        for name, method in inspect.getmembers(group, inspect.isfunction):
            if name in group.__dict__ and not name.startswith("_"):
                lines.append(f"| `{name}` | {_built(name)} | {_first_sentence(method)} |")
        lines.append("")
    return "\n".join(lines)


def protocol_page() -> str:
    """docs/reference/local-protocol.md"""
    return "\n".join([_PROTOCOL_PAGE, *_revisions(), *_commands(), *_records()])


def unbuilt_capability(name: str) -> str | None:
    """The capability that an operation lacks; None for one that is built."""
    method = Unbuilt.__dict__.get(name)
    if method is None:
        return None
    found = re.search(r'_lacks\("(\w+)"\)', inspect.getsource(method))
    assert found is not None, f"{name} says by which capability it is not built"
    return found.group(1)


def _built(name: str) -> str:
    capability = unbuilt_capability(name)
    return "yes" if capability is None else f"no: `{capability}`"


def _first_sentence(method: object) -> str:
    text = " ".join((inspect.getdoc(method) or "").split())
    sentence = re.split(r"(?<=[.])\s", text)[0] if text else ""
    return sentence.replace("|", "\\|")


def _revisions() -> Iterator[str]:
    yield "| revision | adds | server capabilities that are new |"
    yield "| --- | --- | --- |"
    before: frozenset[str] = frozenset()
    for revision, says in ADDED.items():
        new = SERVER_CAPABILITIES[revision] - before
        before = SERVER_CAPABILITIES[revision]
        yield f"| {revision} | {says} | {', '.join(f'`{c}`' for c in sorted(new))} |"
    yield ""


def _commands() -> Iterator[str]:
    yield "## Commands"
    yield ""
    yield (
        "A question mark ends the type of an optional field. Those about a session take its"
        " `activeSessionId`, too. `worker`: the session's worker carries it out, as the command of"
        " the same name in [worker-commands.md](worker-commands.md)."
    )
    yield ""
    yield "| command | kind | fields | needs | by | what it does |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, command in COMMANDS.items():
        by = "worker" if command.worker else "daemon"
        yield (
            f"| `{name}` | {command.kind} | {_fields(command)} | {_gate(command.gate)} | {by} |"
            f" {command.says} |"
        )
    yield ""


def _fields(command: Command) -> str:
    fields = [("activeSessionId", "string")] if command.in_session else []
    shown: list[str] = []
    for name, kind in [*fields, *command.fields.items()]:
        needs = _gate(command.field_gates[name]) if name in command.field_gates else ""
        gated = f" (needs {needs})" if needs else ""
        kind = kind.replace("|", "\\|")
        shown.append(f"`{name}`: {kind}{gated}")
    return "; ".join(shown)


def _gate(gate: Gate) -> str:
    parts = [f"revision {gate.revision}"] if gate.revision else []
    parts += [f"`{gate.capability}`"] if gate.capability else []
    return " and ".join(parts)


def _records() -> Iterator[str]:
    yield "## Records of the daemon"
    yield ""
    yield "| type | fields | what it says |"
    yield "| --- | --- | --- |"
    for record in RECORDS:
        fields = ", ".join(
            f"`{f.encode_name}`{'' if f.required else '?'}" for f in msgspec.structs.fields(record)
        )
        says = "" if record.__doc__ is None else " ".join(record.__doc__.split())
        says = "" if says.startswith(record.__name__) else says
        yield f"| `{record.__struct_config__.tag}` | {fields} | {says} |"
    yield ""


def not_built() -> list[str]:
    """Every operation that raises CapabilityUnavailable, whatever it is given."""
    return [name for name in Unbuilt.__dict__ if not name.startswith("_")]


if __name__ == "__main__":
    folder = Path("docs/reference")
    (folder / "agent-connection.md").write_text(port_page(), encoding="utf-8")
    (folder / "local-protocol.md").write_text(protocol_page(), encoding="utf-8")
