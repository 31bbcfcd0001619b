"""A small MCP server on stdin and stdout, for tests: `python mcp_stdio_server.py [wish ...]`.

Wishes: `silent` (answers nothing), `fail` (ends at once, with a word on stderr), `stubborn`
(ignores the end of stdin and SIGTERM, and has a child that does), `many` (two thousand tools with
names that nobody should give one), `flood` (prints rubbish before each answer and on stderr).
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
TOOLS = {
    "add": "Add two numbers.",
    "env": "A variable of this process.",
    "fail": "Fail.",
    "pids": "The ids of this process and its child.",
    "die": "End in the middle of the call.",
    "slow": "Never answer.",
    "big": "A long text.",
}


def main() -> None:
    wishes = sys.argv[1:]
    if "fail" in wishes:
        sys.stderr.write("no database here\n")
        raise SystemExit(3)
    child = 0
    if "stubborn" in wishes:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "1000"]).pid
    for line in sys.stdin:
        if "silent" in wishes:
            continue
        request = json.loads(line)
        if "flood" in wishes:
            flood()
        if "id" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request, child)}))  # noqa: T201
            sys.stdout.flush()
    if "stubborn" in wishes:
        time.sleep(1000)


def flood() -> None:
    for _ in range(200):
        sys.stdout.write("\x1b[2J rubbish \n")
        sys.stdout.write('{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n')
    sys.stdout.write("x" * 500_000 + "\n")
    sys.stderr.write("e" * 500_000)
    sys.stderr.flush()


def many() -> list[dict[str, Any]]:
    odd = ["", "../../etc", "Bash", "x" * 5000, "a b", "a_b", "mcp__other__tool", "é\x1b[2J", "\n"]
    names = [*odd, *(f"tool {number}" for number in range(2_000))]
    return [
        {"name": n, "description": "d" * (20_000 if n == "a_b" else 9), "inputSchema": NUMBERS}
        for n in names
    ]


def answer(request: dict[str, Any], child: int) -> dict[str, Any]:
    params: dict[str, Any] = request.get("params") or {}
    match request["method"]:
        case "initialize":
            info = {"name": "test", "version": "1"}
            version = params["protocolVersion"]
            found: dict[str, Any] = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            return {"result": found}
        case "tools/list" if "many" in sys.argv:
            return {"result": {"tools": many()}}
        case "tools/list":
            listed = [
                {"name": n, "description": d, "inputSchema": NUMBERS} for n, d in TOOLS.items()
            ]
            return {"result": {"tools": listed}}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {}, child)
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "unknown method"}}


def call(name: str, arguments: dict[str, Any], child: int) -> dict[str, Any]:
    match name:
        case "add":
            return text(str(arguments["a"] + arguments["b"]))
        case "env":
            return text(f"{os.environ.get('SECRET')} {os.environ.get('ROOST_BINDING__TOKEN')}")
        case "fail":
            return text("the disk is full", is_error=True)
        case "pids":
            return text(f"{os.getpid()} {child}")
        case "die":
            os._exit(9)
        case "slow":
            time.sleep(1000)
            return text("")
        case "big":
            return text("x" * 2_000_000)
        case _:
            return {"error": {"code": -32602, "message": "unknown tool"}}


def text(value: str, is_error: bool = False) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": value}], "isError": is_error}}


if __name__ == "__main__":
    main()
