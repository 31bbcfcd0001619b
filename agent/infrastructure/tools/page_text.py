"""HTML as plain text for a model: what a reader of the page would read, and where links lead."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure", "footer",
     "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p",
     "pre", "section", "table", "tr", "ul"}
)  # fmt: skip


class _Text(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title = ""
        self._base = base
        self._skipped = 0
        self._in_title = False
        self._preformatted = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        elif tag in _SKIPPED:
            self._skipped += 1
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")
        elif tag in _BLOCKS:
            self.parts.append("\n- " if tag == "li" else "\n")
            self._preformatted += tag == "pre"
        elif tag in ("td", "th"):
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _SKIPPED:
            self._skipped = max(0, self._skipped - 1)
        elif tag == "a" and self._links:
            target = urljoin(self._base, self._links.pop())
            if target.startswith(("http://", "https://")) and not self._skipped:
                self.parts.append(f" ({target})")
        elif tag in _BLOCKS:
            self.parts.append("\n")
            self._preformatted = max(0, self._preformatted - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._skipped:
            self.parts.append(data if self._preformatted else re.sub(r"\s+", " ", data))


def page_text(html: str, url: str) -> str:
    """The page's title and text. Broken HTML gives what can be read of it."""
    reader = _Text(url)
    reader.feed(html)
    reader.close()
    body = re.sub(r"[ \t]*\n[ \t]*(?:\n[ \t]*)+", "\n\n", "".join(reader.parts))
    lines = (line.rstrip() for line in body.splitlines())
    text = "\n".join(lines).strip()
    title = " ".join(reader.title.split())
    return f"# {title}\n\n{text}" if title else text
