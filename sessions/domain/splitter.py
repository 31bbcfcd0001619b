"""Chunks of a pipe in, whole lines out. No copies that grow with the square of a line's length."""

from dataclasses import dataclass, field

# As a number: looked for at a tenth of the price of the same byte as bytes.
_NEWLINE = 0x0A


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
        if _NEWLINE not in chunk:
            # A piece of a long line, which a split would take ten times as long to find out.
            self._hold(chunk)
            return []
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
        if rest:
            self._hold(rest)
        return lines

    @property
    def unfinished(self) -> int:
        """How many bytes of a line without its newline are held."""
        return self._held

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self._held += len(part)
        if self._held > self.max_line_bytes:
            raise LineTooLong(f"a line of more than {self.max_line_bytes:,} bytes")
