"""A worker that says what a test staged: the conversation's id names the scene.

Speaks the line protocol and nothing else. Its text is hostile, long or rich on purpose; no model
would say just that when it is needed.
"""

import base64
import json
import sys
from typing import Any

HOSTILE = "\n\n".join(
    [
        "<script>window.hacked = 1</script>",
        "rm \u202e txt.seton",
        "<img src=x onerror='window.hacked = 2'>",
        "<svg onload='window.hacked = 3'></svg>",
        "[click me](javascript:window.hacked=4)",
        "![leak](https://evil.example/leak.png)",
        "<iframe srcdoc='<script>parent.hacked = 5</script>'></iframe>",
        "<style>body { display: none }</style>",
        "<a class='button primary' href='#/inbox'>Approve</a>",
        "```html\n<script>window.hacked = 6</script>\n```",
        '```"><img src=x onerror="window.hacked = 7">\ncode\n```',
    ]
)
RICH = """## What I found

The watering plan has **two** mistakes; see [the notes](https://garden.example/notes).

| bed | liters |
| --- | --- |
| roses | 12 |
| herbs | 4 |

```python
def liters(beds: dict[str, int]) -> int:
    # one can is ten
    return sum(beds.values())
```

- [x] read the notes
- [ ] fix the plan
"""
PICTURE = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()
STATE = {
    "todos": [
        {"content": "Read the notes", "status": "completed"},
        {"content": "Fix the plan", "status": "in_progress"},
        {"content": "Water the roses", "status": "pending"},
    ],
    "usage": [{"model": "demo:rich", "inputTokens": 12_300, "outputTokens": 456, "cost": 0.042}],
    "backgroundTasks": {
        "running": 1,
        "jobs": [{"id": "j1", "label": "watering", "status": "running"}],
    },
    "subagents": {
        "subagent-rich-0123456789ab": {"label": "look up roses", "status": "running"},
        "subagent-rich-ba9876543210": {"label": "long done", "status": "closed"},
    },
    "queue": [],
    "retry": None,
}
EDIT = {"path": "plan.txt", "old": "roses: 2\nherbs: 4\n", "new": "roses: 12\nherbs: 4\n"}


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def user(id_: str, content: Any) -> dict[str, Any]:
    return {"id": id_, "role": "user", "content": content}


def agent(id_: str, content: str, *calls: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"id": id_, "role": "assistant", "content": content}
    return message | ({"toolCalls": list(calls)} if calls else {})


def call(id_: str, name: str, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": id_, "type": "function", "function": function}


def result(id_: str, call_id: str, output: str) -> dict[str, Any]:
    content = json.dumps({"success": True, "output": output, "error": ""})
    return {"id": id_, "role": "tool", "toolCallId": call_id, "content": content}


def conversation(scene: str) -> list[dict[str, Any]]:
    if scene.startswith("hostile"):
        return [
            user("u1", HOSTILE),
            {"id": "r1", "role": "reasoning", "content": HOSTILE},
            agent("a1", HOSTILE, call("c1", "Bash", {"command": HOSTILE})),
            result("t1", "c1", HOSTILE),
            {"id": "n1", "role": "activity", "activityType": "x", "content": {"text": HOSTILE}},
        ]
    if scene.startswith("long"):
        return [
            message
            for number in range(5_000)
            for message in (
                user(f"u{number}", f"question {number}"),
                agent(f"a{number}", f"**answer** {number}\n\n" + "word " * (number % 60)),
            )
        ]
    picture = {"type": "image", "mimeType": "image/png", "data": PICTURE, "filename": "bed.png"}
    made = "Saved /home/me/.roost/projects/garden-00000000/artifacts/beds/plot.png for you."
    return [
        user("u1", [{"type": "text", "text": "Is the watering plan right?"}, picture]),
        {"id": "r1", "role": "reasoning", "content": "First the notes, then the plan."},
        agent("a0", "I look at the notes.", call("c1", "Read", {"path": "notes.txt"})),
        result("t1", "c1", "roses need 12 liters\n"),
        agent("a1", "", call("c2", "Edit", EDIT), call("c3", "Bash", {"command": "make plot"})),
        result("t2", "c2", "1 place changed"),
        result("t3", "c3", made),
        agent("a2", RICH),
    ]


def run(run_id: str, messages: list[dict[str, Any]]) -> None:
    say(type="RUN_STARTED", threadId="t", runId=run_id, input={"messages": messages})
    say(type="STATE_SNAPSHOT", snapshot=STATE)
    say(type="TEXT_MESSAGE_START", messageId=f"m-{run_id}", role="assistant")
    say(type="TEXT_MESSAGE_CONTENT", messageId=f"m-{run_id}", delta="Understood.")
    say(type="TEXT_MESSAGE_END", messageId=f"m-{run_id}")
    say(type="RUN_FINISHED", threadId="t", runId=run_id, outcome={"type": "success"})


def ask(run_id: str, messages: list[dict[str, Any]]) -> None:
    """A question whose answer is of a shape that only this worker knows."""
    schema = {"type": "object", "required": ["liters"]}
    asked = {
        "id": "i1", "reason": "input_required", "message": "How much?", "responseSchema": schema
    }  # fmt: skip
    say(type="RUN_STARTED", threadId="t", runId=run_id, input={"messages": messages})
    outcome = {"type": "interrupt", "interrupts": [asked]}
    say(type="RUN_FINISHED", threadId="t", runId=run_id, outcome=outcome)


def told(run_id: str, resume: list[dict[str, Any]]) -> None:
    say(type="RUN_STARTED", threadId="t", runId=run_id, input={"messages": []})
    text = json.dumps(resume[0].get("payload"))
    say(type="TEXT_MESSAGE_CHUNK", messageId=f"m-{run_id}", role="assistant", delta=text)
    say(type="RUN_FINISHED", threadId="t", runId=run_id, outcome={"type": "success"})


def main() -> None:
    scene = sys.argv[sys.argv.index("--session-id") + 1]
    for number, line in enumerate(sys.stdin):
        frame = json.loads(line)
        match frame["type"]:
            case "new_session" | "resume_conversation":
                say(type="MESSAGES_SNAPSHOT", messages=conversation(scene))
            case "run_agent_input" if resume := frame["input"].get("resume"):
                told(f"run-{number}", resume)
            case "run_agent_input" if scene.startswith("asks"):
                ask(f"run-{number}", frame["input"].get("messages", []))
            case "run_agent_input":
                run(f"run-{number}", frame["input"].get("messages", []))
            case "list_history":
                say(type="history", history=[])
            case _:
                pass


if __name__ == "__main__":
    main()
