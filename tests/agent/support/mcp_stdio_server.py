"""A small MCP server on stdin and stdout, for tests: `python mcp_stdio_server.py [wish ...]`.

Wishes: `silent` (answers nothing), `fail` (ends at once, with a word on stderr), `stubborn`
(ignores the end of stdin and SIGTERM, and has a child that does).
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
        if "id" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request, child)}))  # noqa: T201
            sys.stdout.flush()
    if "stubborn" in wishes:
        time.sleep(1000)


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
