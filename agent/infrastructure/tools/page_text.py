"""HTML as plain text for a model: what a reader of the page would read, and where links lead.

A page is written by a stranger and may be made to keep its reader busy: 60 KB of `<a ` take the
standard library's parser minutes, and libraries that build a tree have inputs of their own like
that. So this only scans, from left to right, and looks at no place of the page more than a few
times; what the page does not close is left out, as browsers do.
"""

import html
import re
from urllib.parse import urljoin

_RAW = frozenset({"script", "style", "iframe", "noembed", "noframes", "xmp"})
"""What is in these is no markup, up to their own end."""
_HIDDEN = frozenset({"noscript", "template", "svg"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure", "footer",
     "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p",
     "pre", "section", "table", "tr", "ul"}
)  # fmt: skip

# Every repeat is possessive: nothing is tried again in another way. A quote that is never closed is
# looked for to the end of the page, which can happen once for each kind of quote.
_MARKUP = re.compile(r"<(?=[a-zA-Z!?/])")
_NAMED = re.compile(r"</?[a-zA-Z]")
_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)
    (?P<attributes>(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+)>""",
    re.VERBOSE,
)
_HREF = re.compile(r"""(?i:\bhref)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_SPACE = re.compile(r"\s+")


def page_text(page: str, url: str) -> str:
    """The page's title and text. Broken HTML gives what can be read of it."""
    reader = _Reader(url)
    reader.read(page)
    return reader.text()


class _Reader:
    def __init__(self, base: str) -> None:
        self._base = base
        self._parts: list[str] = []
        self._title: list[str] | None = None
        self._in_title = False
        self._hidden = 0
        self._preformatted = 0
        self._links: list[str] = []

    def read(self, page: str) -> None:
        place = 0
        while found := _MARKUP.search(page, place):
            self._say(page[place : found.start()])
            place = self._after_markup(page, found.start())
            if place < 0:
                return
        self._say(page[place:])

    def text(self) -> str:
        body = _without_gaps("".join(self._parts))
        title = " ".join("".join(self._title or ()).split())
        return f"# {title}\n\n{body}" if title else body

    def _after_markup(self, page: str, place: int) -> int:
        """Where the page goes on after the markup that begins here; -1: nowhere."""
        if page.startswith("<!--", place):
            return _after(page, "-->", place + 4)
        if not _NAMED.match(page, place):
            return _after(page, ">", place + 1)  # a declaration, or something like it
        tag = _TAG.match(page, place)
        if tag is None:
            return -1
        name = tag["name"].lower()
        if tag["end"]:
            self._end(name)
        elif name in _RAW:
            return _after_raw(page, name, tag.end())
        else:
            self._begin(name, tag["attributes"])
        return tag.end()

    def _begin(self, name: str, attributes: str) -> None:
        if name == "title" and self._title is None and not self._hidden:
            self._title, self._in_title = [], True
        elif name in _HIDDEN:
            self._hidden += 1
        elif name == "a":
            self._links.append(_href(attributes))
        elif name in _BLOCKS:
            self._put("\n- " if name == "li" else "\n")
            self._preformatted += name == "pre"
        elif name in ("td", "th"):
            self._put(" ")

    def _end(self, name: str) -> None:
        if name == "title":
            self._in_title = False
        elif name in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif name == "a" and self._links:
            self._tell_link(self._links.pop())
        elif name in _BLOCKS:
            self._put("\n")
            self._preformatted = max(0, self._preformatted - (name == "pre"))

    def _tell_link(self, href: str) -> None:
        try:
            target = urljoin(self._base, href)
        except ValueError:
            return  # it is no address
        if target.startswith(("http://", "https://")):
            self._put(f" ({target})")

    def _say(self, data: str) -> None:
        if not data:
            return
        data = _plain(data)
        if self._in_title and self._title is not None:
            self._title.append(data)
        else:
            self._put(data if self._preformatted else _SPACE.sub(" ", data))

    def _put(self, text: str) -> None:
        if self._hidden:
            return
        begins_line = not self._parts or self._parts[-1].endswith("\n")
        if begins_line and not self._preformatted and text[:1] == " ":
            text = text[1:]
        if text:
            self._parts.append(text)


def _after(page: str, end: str, place: int) -> int:
    found = page.find(end, place)
    return found if found < 0 else found + len(end)


def _after_raw(page: str, name: str, place: int) -> int:
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(page, place)
    return _after(page, ">", end.end()) if end else -1


def _href(attributes: str) -> str:
    found = _HREF.search(attributes)
    return _plain(next((each for each in found.groups() if each is not None), "")) if found else ""


def _plain(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:
        return text  # the number of a character with thousands of digits


def _without_gaps(text: str) -> str:
    """At most one empty line between two others, and no white space at their ends."""
    lines: list[str] = []
    for line in map(str.rstrip, text.splitlines()):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip()
