"""Pages within the bounds stay as they are; the others nest and carry no more than any parser takes, with all text."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from marin_assets.stages import markup_limits
from marin_assets.stages.markup_limits import MOST_ATTRIBUTES, MOST_LEVELS, bound_markup

_NAMES = ["div", "span", "b", "i", "a", "p", "ul", "li", "table", "tr", "td", "blockquote", "h1", "br", "section"]


def _levels(html: str) -> int:
    """The deepest nesting that an HTML5 parser makes of a page, its body's children being the first level."""
    body = LexborHTMLParser(html).body
    assert body is not None
    deepest, upcoming = 0, [(body, 0)]
    while upcoming:
        node, level = upcoming.pop()
        deepest = max(deepest, level)
        upcoming += [(child, level + 1) for child in node.iter(include_text=False)]
    return deepest


@pytest.mark.parametrize(
    "html",
    [
        "<div><p>One<p>Two</div>",
        "<p>" * 10_000,
        "<ul>" + "<li>item" * 10_000 + "</ul>",
        "<table>" + "<tr><td>cell" * 5_000 + "</table>",
        "<svg>" + "<path d='m0,0'/>" * 5_000 + "</svg>",
        "<p>" + "text<br>" * 10_000,
        "<div><p>x</p></div>" * 5_000,
        "<script>" + "if (a<b) { c } " * 3_000 + "</script>",
        "",
        "no markup at all",
        "<",
        "</",
    ],
)
def test_a_page_within_the_bounds_is_unchanged(html: str) -> None:
    assert bound_markup(html).html == html


def test_start_tags_are_counted() -> None:
    assert bound_markup("<!doctype html><p>a<br><B>b</B></p> 1 < 2 <!-- <p> --").tags == 4


@pytest.mark.parametrize("opening", ["<div>", "<b><i>", "<ul><li>", "<table><tr><td>", "<x-y>", "<DIV CLASS='>'>"])
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_is_cut_and_its_text_stays(opening: str, closed: bool) -> None:
    names = re.findall(r"<([\w-]+)", opening)
    closing = "".join(f"</{name}>" for name in reversed(names)) if closed else ""
    html = opening * 3_000 + "Inside" + closing * 3_000 + "<p>Behind</p>"
    bounded = bound_markup(html).html
    # libxml2 and Lexbor put a body around all, and a tbody into each table.
    assert _levels(bounded) <= MOST_LEVELS * (4 / 3) + 4
    assert " ".join(LexborHTMLParser(bounded).text(separator=" ").split()) == "Inside Behind"
    if closed:
        behind = LexborHTMLParser(bounded).css("p")[-1]
        assert behind.parent is not None
        assert behind.parent.tag == "body"


@settings(deadline=None, max_examples=100)
@given(
    tags=st.lists(st.tuples(st.sampled_from(_NAMES), st.booleans(), st.integers(1, 60)), max_size=30),
    most=st.integers(5, 30),
)
def test_any_markup_nests_within_the_bound(tags: list[tuple[str, bool, int]], most: int) -> None:
    html = "".join((f"</{name}>" if is_end else f"<{name}>x") * count for name, is_end, count in tags)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markup_limits, "MOST_LEVELS", most)
        bounded = bound_markup(html).html
    assert re.sub("<[^<>]*>| ", "", bounded) == re.sub("<[^<>]*>| ", "", html)
    assert html == bounded or len(bounded) < len(html) or _levels(html) <= most


def test_an_element_keeps_its_first_attributes() -> None:
    attributes = " ".join(f'a{number}="<{number}>"' for number in range(20_000))
    bounded = bound_markup(f"<p {attributes}>Text</p>").html
    (paragraph,) = LexborHTMLParser(bounded).css("p")
    assert list(paragraph.attributes.items()) == [(f"a{number}", f"<{number}>") for number in range(MOST_ATTRIBUTES)]
    assert paragraph.text() == "Text"


def test_data_in_attributes_is_left_out() -> None:
    bounded = bound_markup(f'<p><img alt="A loaf" src="data:image/png;base64,{"A" * 100_000}">Text</p>').html
    assert bounded == '<p><img alt="A loaf">Text</p>'


@pytest.mark.parametrize("piece", ["<", "<a ", '<a "', "<a b='", "<!--", "</", "<script>", "<a/", "<a b=", "&#"])
def test_time_grows_with_the_page_alone(piece: str) -> None:
    html = "<div>" * 1_000 + piece * 100_000
    started = time.process_time()
    bound_markup(html)
    assert time.process_time() - started < 1


def test_what_is_bounded_is_not_too_deep_for_libxml2() -> None:
    html = bound_markup("<div>" * 5_000 + "Inside" + "</div>" * 5_000 + "<p>Behind</p>").html
    tree = etree.fromstring(html, etree.HTMLParser())
    assert "".join(tree.itertext()).split() == ["Inside", "Behind"]
