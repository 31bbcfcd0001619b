"""Chunks of a pipe in, whole lines out. No copies that grow with the square of a line's length."""

from dataclasses import dataclass, field


class LineTooLong(ValueError):
    """A line passed the ceiling before its newline came."""


@dataclass(slots=True)
class LineSplitter:
    """Collects chunks until a newline; joins once per line."""

    max_line_bytes: int
    _parts: list[bytes] = field(default_factory=list[bytes])
    _held: int = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without newlines. Raises LineTooLong."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
        if rest:
            self._parts.append(rest)
            self._held += len(rest)
            if self._held > self.max_line_bytes:
                raise LineTooLong(f"a line of more than {self.max_line_bytes:,} bytes")
        return lines

    @property
    def unfinished(self) -> int:
        """How many bytes of a line without its newline are held."""
        return self._held
