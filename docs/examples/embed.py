"""A program with an agent in it. One line decides where the agent lives.

Run it in a project: python embed.py "what is in this folder?"
"""

import json
import sys

import anyio

from roost import AgentConnection, connect

IN_PROCESS = "--in-process" in sys.argv  # this line: here, or in the daemon, which outlives us


async def converse(agent: AgentConnection, text: str) -> str:
    """Send a message, print the answer as it comes, and what it waits for."""

    def show(event: object) -> None:
        line = getattr(event, "event", None)
        told = json.loads(line) if line else {}
        if told.get("type") == "TEXT_MESSAGE_CONTENT":
            print(told["delta"], end="", flush=True)  # noqa: T201

    agent.subscribe(show)
    outcome = await agent.prompt_and_wait(text)
    print()  # noqa: T201
    for interrupt in (await agent.get_state()).interrupts:
        print(f"it waits: {interrupt.message}")  # noqa: T201
    return outcome.outcome


async def main(text: str) -> None:
    async with connect(".", in_process=IN_PROCESS) as agent:
        print("outcome:", await converse(agent, text))  # noqa: T201


if __name__ == "__main__":
    anyio.run(main, next(a for a in [*sys.argv[1:], "hello"] if not a.startswith("--")))
