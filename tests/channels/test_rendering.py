"""What an agent writes, as Telegram takes it: always valid, never cut in a bad place, all of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.channels.domain import escaping
from roost.channels.domain.markdown import render
from roost.channels.domain.spans import Span, Style, plain, split, units
from roost.channels.domain.telegram_html import LONGEST_MESSAGE, chunks
from tests.channels import strict_html

# Pieces that Markdown is made of, so that random texts are full of it, and broken in all ways.
PIECES = [
    "**", "*", "_", "__", "~~", "`", "```", "```py\n", "\n", "\n\n", "> ", "- ", "1. ", "# ",
    "    ", "[", "](http://x.example/?a=1&b=2)", "](file.pdf)", "![", "](a.png)", "<b>", "</i>",
    "<!--", "&amp;", "&lt", "<", ">", "&", '"', "'", "|", "|-|-|\n", "| a | b |\n", "---\n",
    "\\", "word", "two words ",
    "é", "🙂", "👩‍👩‍👧", "日本", "\u200b", "\t", "  \n", "\x00", "\ud800", "=", "===\n", "<http://a.b>",
]  # fmt: skip
markdown = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=60).map(
    "".join
)


def html_of(text: str, longest: int = LONGEST_MESSAGE) -> list[str]:
    return [chunk.markup for chunk in chunks(render(text).spans, longest)]


def shown(text: str) -> str:
    return "".join(strict_html.read(html)[0] for html in html_of(text))


@settings(max_examples=250, deadline=None)
@given(markdown, st.integers(2, 60))
def test_random_markdown_is_never_refused_and_never_too_long(text: str, longest: int) -> None:
    """A refused message is one that the person does not see as it was meant."""
    for chunk in chunks(render(text).spans, longest):
        read, _ = strict_html.read(chunk.markup)
        assert read == chunk.plain
        assert strict_html.units(read) <= longest
        assert read.strip()
        chunk.markup.encode()


@settings(max_examples=120, deadline=None)
@given(markdown, st.integers(2, 60), st.integers(1, 5))
def test_the_pieces_joined_are_the_whole_text(text: str, longest: int, most: int) -> None:
    spans = render(text).spans
    pieces = split(spans, longest, most)
    assert "".join(plain(piece) for piece in pieces) == plain(spans)
    assert all(0 < units(plain(piece)) <= longest and len(piece) <= most for piece in pieces)


@settings(max_examples=120, deadline=None)
@given(st.text(max_size=80))
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    """What others wrote (a title, an error) must not become markup in our own messages."""
    words = " ".join(text.replace("\x00", "").split())
    if words and words.isprintable():
        assert shown(escaping.inline(text.replace("\x00", ""))) == words


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.sampled_from(["`", "a", "\n", " ", "```", "~~~", "<"]), max_size=20).map("".join)
)
def test_a_code_block_holds_whatever_it_is_given(text: str) -> None:
    """An approval shows exactly what would run: nothing in it may end the block early."""
    rendered = render(f"before\n\n{escaping.block(text)}\n\nafter").spans
    blocks = [span.text for span in rendered if span.styles and span.styles[0].mark == "block"]
    assert "".join(blocks) == text.rstrip("\n")


def test_a_text_of_10000_characters_is_sent_in_pieces_of_at_most_3500() -> None:
    text = "\n\n".join(f"Paragraph {n}: " + "words and more words. " * 12 for n in range(37))
    assert len(text) > 10_000
    pieces = chunks(render(text).spans)
    assert len(pieces) < 5
    assert all(len(piece.plain) <= 3500 for piece in pieces)
    # Cut between paragraphs, where there is a place for it.
    assert all(piece.plain.startswith("Paragraph") for piece in pieces)


def test_length_is_counted_as_telegram_counts_it() -> None:
    """In UTF-16 code units: an emoji is two, and is never cut in half."""
    assert units("a🙂b") == 4
    pieces = split([Span("🙂" * 5)], 3)
    assert [plain(piece) for piece in pieces] == ["🙂"] * 5


def test_a_style_that_is_cut_goes_on_in_the_next_message() -> None:
    bold = (Style("bold"),)
    first, second = chunks([Span("aaaa bbbb", bold)], 5)
    assert (first.markup, second.markup) == ("<b>aaaa </b>", "<b>bbbb</b>")
    code = chunks([Span("x = 1\ny = 2\n", (Style("block", "py"),))], 7)
    assert [chunk.markup for chunk in code] == [
        '<pre><code class="language-py">x = 1\n</code></pre>',
        '<pre><code class="language-py">y = 2\n</code></pre>',
    ]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**b** *i* ~~s~~ `c`", "<b>b</b> <i>i</i> <s>s</s> <code>c</code>"),
        ("# Title\n\ntext", "<b>Title</b>\n\ntext"),
        ("[l](http://x.example/?a=1&b=2)", '<a href="http://x.example/?a=1&amp;b=2">l</a>'),
        ("see [the plan](docs/plan.pdf)", "see the plan (docs/plan.pdf)"),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("a < b && c", "a &lt; b &amp;&amp; c"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("- one\n- two\n  1. x\n  2. y", "• one\n• two\n  1. x\n  2. y"),
        ("> quoted\n> more", "<blockquote>quoted\nmore</blockquote>"),
        ("> a\n>\n> b\n\nc", "<blockquote>a\n\nb</blockquote>\n\nc"),
        ("```py\nx<1\n```", '<pre><code class="language-py">x&lt;1</code></pre>'),
        ("**`code` wins**", "<code>code</code><b> wins</b>"),
        ("![alt](a.png)", "<i>[alt]</i>"),
        ("a\n\n---\n\nb", "a\n\n" + "—" * 10 + "\n\nb"),
    ],
)
def test_each_kind_of_markdown(text: str, html: str) -> None:
    assert html_of(text) == [html]


def test_a_table_is_aligned_in_a_block_of_its_own() -> None:
    table = "| name | n |\n|---|---|\n| a | 1 |\n| long | 22 |\n| 日本 | 3 |"
    (html,) = html_of(table)
    assert html == "<pre>name  n\n----  --\na     1\nlong  22\n日本  3</pre>"


def test_a_table_too_wide_for_a_phone_becomes_records() -> None:
    cell = "some words that take much room"
    table = f"| first | second |\n|---|---|\n| {cell} | {cell} |\n| b | |"
    (html,) = html_of(table)
    assert html == f"first: {cell}\nsecond: {cell}\n\nfirst: b"


def test_local_files_that_a_text_refers_to_are_told() -> None:
    text = (
        "![p](out/plot.png) and [r](report.pdf) and [w](https://x.example/a.pdf) ![p](out/plot.png)"
    )
    assert render(text).references == ("out/plot.png", "report.pdf")
