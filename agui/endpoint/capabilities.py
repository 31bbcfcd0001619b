"""What clients can learn of the agents before they talk to one. Pure."""

from collections.abc import Mapping

from agui.endpoint.agents import Agent

_DESCRIPTION = "An agent that works in a folder of this machine."


def agent_info(agents: Mapping[str, Agent], version: str) -> dict[str, object]:
    """The answer of `GET /agui/info`, in the shape that CopilotKit's clients read."""
    return {
        "version": version,
        "mode": "sse",
        "audioFileTranscriptionEnabled": False,
        "agents": {
            name: {
                "name": name,
                "className": "HttpAgent",
                "description": agent.description or _DESCRIPTION,
                "capabilities": capabilities(name, agent, version),
            }
            for name, agent in agents.items()
        },
    }


def capabilities(name: str, agent: Agent, version: str) -> dict[str, object]:
    """An AG-UI `AgentCapabilities`. What is not in it is not said either way."""
    return {
        "identity": {
            "name": name,
            "type": "roost",
            "description": agent.description or _DESCRIPTION,
            "version": version,
        },
        "transport": {"streaming": True, "websocket": True, "resumable": True},
        "tools": {"supported": True, "clientProvided": True},
        "state": {"snapshots": True, "deltas": True},
        "reasoning": {"supported": True, "streaming": True},
        "humanInTheLoop": {
            "supported": True,
            "approvals": True,
            "interrupts": True,
        },
    }
