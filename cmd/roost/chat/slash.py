"""What a line that begins with a slash asks for. Pure."""

from dataclasses import dataclass

COMMANDS = {
    "help": ("", "what can be typed here"),
    "model": ("[provider:name]", "choose the model for the next turn; alone: list them"),
    "mode": ("[standard|plan|auto|auto-with-judge]", "what the agent may do without asking"),
    "new": ("", "a new conversation in this project"),
    "resume": ("[conversation]", "go to another conversation; alone: list them"),
    "fork": ("[n]", "copy the conversation, up to before your n-th last message, and go there"),
    "queue": ("[delete n | edit n text]", "the messages that wait"),
    "name": ("words", "name this conversation"),
    "stop": ("", "end the run that goes on (also Esc)"),
    "export": ("[path]", "write the conversation to a file, as JSON lines"),
    "quit": ("", "leave; the agent goes on (also Ctrl+C or Ctrl+D)"),
}
"""Name to its arguments and what it does, for /help and for the check."""


@dataclass(frozen=True, slots=True)
class Slash:
    """A command of the chat itself."""

    name: str
    argument: str


def parse(text: str) -> Slash | None:
    """The command that a text is; None for a message to the agent, and for skills of the agent."""
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, argument = text[1:].strip().partition(" ")
    return Slash(name, argument.strip()) if name in COMMANDS else None


def help_text() -> str:
    """Every command, a line each."""
    usages = {name: f"/{name} {usage}".strip() for name, (usage, _) in COMMANDS.items()}
    width = max(len(usage) for usage in usages.values())
    lines = [f"{usages[name]:<{width}}  {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(
        [
            *lines,
            "",
            "Enter sends; Ctrl+J (or Shift+Enter, where the terminal tells) begins a new line.",
            "Up and Down bring back what you wrote. Text that begins with ! is run in the shell.",
            "While the agent works, a message joins its run; Esc stops it.",
            "Ctrl+O opens and folds what tools printed. PageUp scrolls, and fetches more.",
        ]
    )
