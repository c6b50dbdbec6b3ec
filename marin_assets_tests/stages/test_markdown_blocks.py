"""What the composed Markdown says, read by a CommonMark parser, is what the HTML said."""

import re
from html import escape
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html as lxml_html
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from marin_assets.stages import markdown_blocks
from marin_assets.stages.markdown_blocks import compose

Block = tuple[object, ...]
"""A tag and what is in it: a text, or blocks; for lists a start and items."""


def _markdown(html: str) -> str:
    return compose(lxml_html.fragment_fromstring(html, create_parent="div"))


def _html(block: Block) -> str:
    match block:
        case ("hr",):
            return "<hr>"
        case ("pre", str(text)):
            return f"<pre><code>{text}</code></pre>"
        case ("table", str(text)):
            return f"<table><tr><th>{text}</th><th>x</th></tr><tr><td>1</td><td>2</td></tr></table>"
        case ("blockquote", list(blocks)):
            return f"<blockquote>{''.join(map(_html, blocks))}</blockquote>"
        case ("ul" | "ol" as tag, start, list(items)):
            inside = "".join(f"<li>{''.join(map(_html, item))}</li>" for item in items)
            return f'<{tag} start="{start}">{inside}</{tag}>'
        case (tag, str(text)):
            return f"<{tag}>{text}</{tag}>"
    raise AssertionError(block)


def _read(markdown: str) -> list[Block]:
    return list(map(_block_of, SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(markdown)).children))


def _block_of(node: SyntaxTreeNode) -> Block:
    match node.type:
        case "hr":
            return ("hr",)
        case "fence":
            return ("pre", node.content.removesuffix("\n"))
        case "table":
            return ("table", _inline(node.children[0].children[0].children[0].children[0]))
        case "blockquote":
            return ("blockquote", list(map(_block_of, node.children)))
        case "bullet_list" | "ordered_list":
            items = [list(map(_block_of, item.children)) for item in node.children]
            return ("ul", 1, items) if node.type == "bullet_list" else ("ol", node.attrs.get("start", 1), items)
        case _:
            return (node.tag, _inline(node.children[0]))


def _inline(node: SyntaxTreeNode) -> str:
    """Text with its line breaks; emphasis and code don't matter here."""
    if node.type == "hardbreak":
        return "<br>"
    assert node.type != "softbreak"
    return "".join(map(_inline, node.children)) if node.children else node.content


_WORDS = st.lists(
    st.sampled_from(["bread", "42.", "#", "-", "+", ">", "==", "---", "~~~", "1)", "é", "文"]), min_size=1
)
_TEXTS = _WORDS.map(lambda words: " ".join([*words, "y"]))
_LINES = st.lists(_TEXTS, min_size=1, max_size=3).map("<br>".join)
_LEAVES = st.one_of(
    st.tuples(st.just("p"), _LINES),
    st.tuples(st.sampled_from(["h1", "h3", "h6"]), _TEXTS),
    st.tuples(
        st.just("pre"), st.lists(_TEXTS | st.just(""), min_size=1).map(lambda lines: "\n".join(["z", *lines, "z"]))
    ),
    st.tuples(st.just("table"), _TEXTS),
    st.just(("hr",)),
)


def _apart(blocks: list[Block]) -> bool:
    """Markdown has no way to keep two lists apart that follow each other."""
    return all({before[0], after[0]} - {"ul", "ol"} for before, after in pairwise(blocks))


def _some(blocks: st.SearchStrategy[Block]) -> st.SearchStrategy[list[Block]]:
    return st.lists(blocks, min_size=1, max_size=3).filter(_apart)


_BLOCKS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.just("blockquote"), _some(inner)),
        st.tuples(st.just("ul"), st.just(1), st.lists(_some(inner), min_size=1, max_size=3)),
        st.tuples(st.just("ol"), st.sampled_from([0, 1, 7, 99]), st.lists(_some(inner), min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=40)
@given(_some(_BLOCKS))
def test_blocks_survive_in_any_nesting_and_blank_lines_keep_them_apart(blocks: list[Block]) -> None:
    markdown = _markdown("".join(map(_html, blocks)))
    assert _read(markdown) == blocks
    assert markdown == "\n\n".join(_markdown(_html(block)) for block in blocks)


@settings(deadline=None, max_examples=25)
@given(st.lists(_BLOCKS, min_size=1, max_size=3), st.sampled_from([" ", "\n", "\n  \n\t", "\r\n "]))
def test_how_the_source_is_wrapped_shows_nowhere(blocks: list[Block], space: str) -> None:
    pieces = re.split(r"(<pre>.*?</pre>)", "".join(map(_html, blocks)), flags=re.DOTALL)
    wrapped = "".join(
        piece if piece.startswith("<pre>") else re.sub(r" (?![^<]*>)|(?<=>)(?=<)", space, piece) for piece in pieces
    )
    assert _markdown(wrapped) == _markdown("".join(pieces))


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<p>a</p><blockquote>b</blockquote><p>c</p>", "a\n\n> b\n\nc"),
        ("<pre>a</pre><blockquote>b</blockquote><blockquote>c</blockquote>", "```\na\n```\n\n> b\n\n> c"),
        ("a<blockquote>b<blockquote>c</blockquote></blockquote>d", "a\n\n> b\n>\n> > c\n\nd"),
        ("<ul><li>a<blockquote>b</blockquote></li><li>c</li></ul>", "- a\n\n  > b\n\n- c"),
        ("<ul><li>a<ol><li>b</li></ol></li><li>c</li></ul>", "- a\n  1. b\n- c"),
        ("<ul><li>a<ol start=3><li>b</li></ol></li></ul>", "- a\n\n  3. b"),
        ("<ul>a<li>b</li>c<ul><li>d</li></ul></ul>", "- a\n\n- b\n\n  c\n\n  - d"),
        ("<ul><ul><li>a</li></ul></ul>", "- a"),
        ("<li>a</li><li>b</li>", "a\n\nb"),
        ("<ul><li></li><li>a</li></ul>", "- a"),
        ("<p>a</p><hr><h2>b</h2><hr>c", "a\n\n---\n\n## b\n\n---\n\nc"),
        ("<dl><dt>a</dt><dd>b<blockquote>c</blockquote></dd></dl><p>d</p>", "a\n\nb\n\n> c\n\nd"),
        ("<p>a<br>b<br><br>c<br> <br/><br>d<br></p>", "a  \nb\n\nc\n\nd"),
        ("<p> a <b> b </b> c\n<i>\nd</i> <br> e</p>", "a **b** c *d*  \ne"),
        ("<p>a <code>b\n  c</code></p><pre>d\n  e</pre>", "a `b c`\n\n```\nd\n  e\n```"),
        ("<p>« a » b\u3000c\u2003d</p><p>\u00a0</p>", "« a » b\u3000c\u2003d"),
        ("<h2>a<br>b <div>c</div></h2>", "## a b c"),
        ("<table><tr><th>a<td>b<br>c<p>d</p><ul><li>e</li></ul></table>", "| a | b c d e |\n| --- | ------- |"),
        ("<blockquote> </blockquote><ul><li> </li></ul>", ""),
    ],
)
def test_blocks_by_example(html: str, markdown: str) -> None:
    assert _markdown(html) == markdown


def test_what_nests_too_deep_is_left_to_the_caller() -> None:
    root = lxml_html.Element("div")
    inner = root
    for _ in range(5000):
        inner = lxml_html.etree.SubElement(inner, "blockquote")
    inner.text = "a"
    assert compose(root) == ""


@settings(deadline=None, max_examples=200)
@given(text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Co"]), max_size=40))
def test_text_that_is_not_given_to_the_converter_is_what_it_would_give(text: str) -> None:
    html = f"<p>{escape(text)}</p>"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown_blocks, "_is_plain", lambda _: False)
        converted = _markdown(html)
    assert _markdown(html) == converted
