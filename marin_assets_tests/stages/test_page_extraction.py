"""The main content of a page comes out once, in order, with its structure; nothing else does."""

import re
from html import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin_assets.stages import main_content
from marin_assets.stages.html_to_markdown import ExtractMethod, HtmlToMarkdownConfig
from marin_assets.stages.page_extraction import Extraction, PageRequest, Status, extract_page

_METHODS = pytest.mark.parametrize("method", list(ExtractMethod))
_SENTENCE = "Good bread is made of flour and water, salt and time, and of the patience of those who bake it. "
_FRAME = """<!doctype html><html lang=en><head><title>Bread | A site</title><meta property="og:title" content="Bread">
<style>p {{ color: red }}</style><script>var tracked = "<p>scripted</p>";</script></head><body>
<nav class="menu"><ul><li><a href="/">Home</a></li><li><a href="/a">Archive</a></li></ul></nav>
<div class="cookie-banner"><p>We use cookies to improve your experience.</p><button>Accept all</button></div>
<article><h1>Bread</h1><p>{first}</p>{content}<p>{last}</p></article>
<footer><p>Imprint and privacy</p></footer></body></html>"""
_FIRST, _LAST = "First: " + 2 * _SENTENCE, "Last: " + 2 * _SENTENCE


def _page(content: str) -> str:
    return _FRAME.format(first=_FIRST, content=content, last=_LAST)


def _extract(
    html: bytes | str, method: ExtractMethod = ExtractMethod.trafilatura, url: str | None = None, **options: bool
) -> Extraction:
    config = HtmlToMarkdownConfig.model_validate({"extract_method": method, **options})
    return extract_page(PageRequest(html, url, config))


def _markdown(content: str, method: ExtractMethod = ExtractMethod.trafilatura, **options: bool) -> str:
    """The Markdown of what stands between the first and the last paragraph."""
    extraction = _extract(_page(content), method, None, **options)
    assert extraction.status is Status.ok
    before, first, rest = extraction.text.partition(_FIRST.strip())
    middle, last, after = rest.partition(_LAST.strip())
    assert (before, bool(first), bool(last), after) == ("# Bread\n\n", True, True, "")
    return middle.strip("\n")


@_METHODS
def test_navigation_banners_scripts_and_footers_are_left_out(method: ExtractMethod) -> None:
    assert _markdown("", method) == ""


@_METHODS
@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        (
            "<ol start=3><li>Mix<ul><li>flour<ul><li>rye</li></ul></li><li>water</li></ul></li><li>Knead it</li></ol>",
            "3. Mix\n   - flour\n     - rye\n   - water\n4. Knead it",
        ),
        ("<ol><li value=7>seventh of them</li><li>eighth of them</li></ol>", "7. seventh of them\n8. eighth of them"),
        (
            '<pre><code class="language-rust">fn bake() {\n\n    let x = "&lt;p&gt;";\n}\n</code></pre>',
            '```rust\nfn bake() {\n\n    let x = "<p>";\n}\n```',
        ),
        (
            '<div class="highlight highlight-source-python"><pre><span>def</span> f():\n\n\n    return 1</pre></div>',
            "```python\ndef f():\n\n\n    return 1\n```",
        ),
        ("<pre>a ``` b and more of it<br>c</pre>", "````\na ``` b and more of it\nc\n````"),
        (
            "<blockquote><p>One quote.</p><p>Another <em>one</em>.</p><blockquote>Nested one</blockquote></blockquote>",
            "> One quote.\n>\n> Another *one*.\n>\n> > Nested one",
        ),
        (
            "<table><tr><th>Flour</th><th>Grams</th></tr><tr><td>Rye | dark</td><td>100</td></tr>"
            "<tr><td>Wheat</td><td></td></tr></table>",
            "| Flour       | Grams |\n| ----------- | ----- |\n| Rye \\| dark | 100   |\n| Wheat       |       |",
        ),
        (
            "<table><tr><th>Flour</th><th>Kinds</th></tr><tr><td>Wheat</td><td><ul><li>white</li><li>whole</li></ul>"
            "</td></tr></table>",
            "| Flour | Kinds       |\n| ----- | ----------- |\n| Wheat | white whole |",
        ),
        ("<h3>Sub <em>heading</em></h3><p>Text of it.</p>", "### Sub *heading*\n\nText of it."),
        ("<p>Mind <code>a_b</code>, <b>bold</b> and <del>gone</del> words.</p>",
         "Mind `a_b`, **bold** and ~~gone~~ words."),
        ("<p>中文段落，用来测试。</p><p>Текст по-русски.</p><p>نص عربي هنا</p><p>🥖 emoji too</p>",
         "中文段落，用来测试。\n\nТекст по-русски.\n\nنص عربي هنا\n\n🥖 emoji too"),
    ],
    ids=["lists", "list value", "code", "highlighted code", "fence", "quotes", "table", "list in table", "heading",
         "emphasis", "scripts"],
)  # fmt: skip
def test_structure_survives(method: ExtractMethod, html: str, markdown: str) -> None:
    assert _markdown(html, method) == markdown


@_METHODS
def test_a_table_that_lays_out_the_page_is_no_table(method: ExtractMethod) -> None:
    layout = f"<table><tr><td><h2>Left</h2><p>{_SENTENCE}</p></td><td><pre>x = 1\n\ny = 2</pre></td></tr></table>"
    assert _markdown(layout, method) == f"## Left\n\n{_SENTENCE.strip()}\n\n```\nx = 1\n\ny = 2\n```"


@_METHODS
def test_a_paragraph_comes_out_as_often_as_the_page_has_it(method: ExtractMethod) -> None:
    twice = f"<p>Again. {_SENTENCE}</p>" * 2
    assert _markdown(twice, method).count("Again.") == 2
    assert (
        _markdown(f"<div>Once. {_SENTENCE}<br>{_SENTENCE}<div><p>{_SENTENCE}</p></div></div>", method).count("Once.")
        == 1
    )


@_METHODS
def test_links_and_pictures_are_kept_on_demand(method: ExtractMethod) -> None:
    html = _page(f'<p>{_SENTENCE}See <a href="/m?a=1&amp;b">more</a>. <img src="p.png" alt="A loaf"></p>')
    bare = _extract(html, method, "http://e.com/x/").text
    assert "See more." in bare
    assert "loaf" not in bare
    rich = _extract(html, method, "http://e.com/x/", include_links=True, include_images=True).text
    assert "See [more](http://e.com/m?a=1&b). ![A loaf](http://e.com/x/p.png)" in rich


@_METHODS
def test_tables_and_emphasis_are_left_out_on_demand(method: ExtractMethod) -> None:
    html = (
        "<table><tr><th>Flour</th><th>Grams</th></tr><tr><td>Rye</td><td>1</td></tr></table><p>A <b>bold</b> word.</p>"
    )
    assert _markdown(html, method, include_tables=False, include_formatting=False) == "A bold word."


@_METHODS
def test_the_title_is_the_one_for_sharing_and_is_prepended_once(method: ExtractMethod) -> None:
    with_heading = _extract(_page(""), method, prepend_title=True)
    assert with_heading.title == "Bread"
    assert with_heading.text.startswith("# Bread\n\nFirst")
    without = _extract(_page("").replace("<h1>Bread</h1>", ""), method, prepend_title=True)
    assert without.text.startswith("# Bread\n\nFirst")


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title> A\n title </title>", "A title"),
        ("<meta property='og:title' content=''><title>B</title>", "B"),
        ("", "Heading"),
    ],
)
def test_titles_are_found_in_the_head_or_the_first_heading(head: str, title: str) -> None:
    html = f"<html><head>{head}</head><body><h1>Heading</h1><p>{2 * _SENTENCE}</p></body></html>"
    assert _extract(html).title == title


@_METHODS
@pytest.mark.parametrize(
    ("page", "status"),
    [
        (b"", Status.empty),
        ("  \n", Status.empty),
        (b"<html><body></body></html>", Status.empty),
        (b"%PDF-1.7 <p>", Status.not_html),
        ('{"a": 1}', Status.not_html),
        (b"<p>" + bytes(1 << 25), Status.too_large),
    ],
)
def test_what_is_no_page_has_a_status(method: ExtractMethod, page: bytes | str, status: Status) -> None:
    extraction = _extract(page, method)
    assert (extraction.status, extraction.text) == (status, "")


@_METHODS
@pytest.mark.parametrize(
    "html",
    [
        _page("").replace("</p>", "").replace("</article>", ""),
        _page("")[:-200],
        _page("").replace("<html lang=en>", "").replace("</body></html>", ""),
        _page(f"<p>{_SENTENCE}</p>").encode("utf-16"),
        _page("")
        .replace("<!doctype html>", '<!DOCTYPE html PUBLIC "-//W3C" "x"[<!ENTITY a "b">')
        .replace("=en", "=en /"),
        _page("<b><font>" * 400),
        f"<div><p>{_FIRST}</p><p>{_LAST}</p></div>",
    ],
    ids=["no closing tags", "truncated", "no html element", "UTF-16", "odd start", "hundreds of open tags", "fragment"],
)
def test_broken_pages_give_their_text(method: ExtractMethod, html: bytes | str) -> None:
    extraction = _extract(html, method)
    assert extraction.status is Status.ok
    assert _FIRST.strip() in extraction.text
    assert "cookies" not in extraction.text


def test_text_from_structured_data_is_taken_when_the_page_has_no_other() -> None:
    body = " ".join([_SENTENCE] * 5)
    html = (
        '<html><head><script type="application/ld+json">{"@type": "Article", "articleBody": "'
        f'{body}"}}</script></head><body><div id=app></div></body></html>'
    )
    assert _SENTENCE.strip() in _extract(html).text


@_METHODS
def test_characters_used_as_marks_do_not_come_through(method: ExtractMethod) -> None:
    text = _extract(_page("<p>An icon \U00100001 and &#x10fffd; another.</p>"), method).text
    assert "An icon and another." in text
    assert not any(character >= "\U00100000" for character in text)


@_METHODS
def test_pages_with_more_texts_than_there_are_characters_for_marks(
    method: ExtractMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "<br>".join(f"line {number}" for number in range(60))
    expected = _extract(_page(f"<p>{lines}</p>"), method)
    monkeypatch.setattr(main_content, "_MARK_COUNT", 10)
    assert _extract(_page(f"<p>{lines}</p>"), method) == expected
    assert expected.text.count("line ") == 60


@_METHODS
@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a\ue000b\uf8ffc\U000f0001d", "a\ue000b\uf8ffc\U000f0001d"),
        ("a\U0001fffeb\ufdd0c", "a\U0001fffeb\ufdd0c"),
        ("a&#0;b&#xD800;c&#55357;d&#x110000;e&#99999999999;f", "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf"),
        ("a&#1;b&#x1b;c&#xfffe;d\x01e\x1bf\uffffg", "abcdefg"),
        ("a\fb\x0bc&#12;d&#x1f;e", "a b c d e"),
        ("a&#150;b&#x80;c&#8212;d&#xe9e", "a–b€c—d\u0e9e"),
        ("a\u00a0b\u3000c\u200bd\u00ade\ufefff\u2028g", "a\u00a0b\u3000c\u200bd\u00ade\ufefff\u2028g"),
        ("a \n\t b\r\nc<br>\n d", "a b c  \nd"),
        ("&lt;p&gt; &amp;amp; &amp;#1; &amp;lt;", "<p> &amp; &#1; &lt;"),
    ],
    ids=["private use", "noncharacters", "no characters", "control characters", "separators", "cp1252 references",
         "Unicode spaces", "source wrapping", "markup as text"],
)  # fmt: skip
def test_characters_come_out_as_the_web_reads_them(method: ExtractMethod, html: str, text: str) -> None:
    assert _markdown(f"<p>{html}</p>", method) == text


_UNESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


@_METHODS
@settings(deadline=None, max_examples=60)
@given(text=st.text(st.characters(max_codepoint=0x0FFFFF, exclude_categories=["Cc", "Cs"]), max_size=40))
def test_no_text_is_lost(method: ExtractMethod, text: str) -> None:
    written = f"{_SENTENCE}x{text}x"
    (paragraph,) = _markdown(f"<p>{escape(written)}</p>", method).split("\n\n")
    expected = re.sub(" +", " ", re.sub("[\ufffe\uffff]", "", written))
    assert _UNESCAPED.sub(r"\1", paragraph) == expected


_TAG_NAMES = re.findall(
    r"\S+",
    """p div span b em code pre ul ol li dl dd table tr td th caption blockquote h2 br hr img a section textarea select
    button script style noscript template svg iframe figure title head body html x-y""",
)
_ATTRIBUTES = [
    "",
    " href='http://[x'",
    " start=-5",
    " lang='\x01'",
    " style=display:none",
    " colspan=99999",
    " alt='a\nb|c'",
]
_SCRAPS = st.one_of(
    st.builds("<{}{}>".format, st.sampled_from(_TAG_NAMES), st.sampled_from(_ATTRIBUTES)),
    st.builds("</{}>".format, st.sampled_from(_TAG_NAMES)),
    st.sampled_from([_SENTENCE, "x", "\n", "&nbsp;", "&#1;", "<", "&", "\0", "🥖", "\U00100001", "<!--", "-->", "]]>"]),
    st.text(max_size=8),
)
_FRAGMENTS = st.lists(_SCRAPS, max_size=25).map("".join)


@_METHODS
@settings(deadline=None, max_examples=60)
@given(
    page=st.one_of(_FRAGMENTS, _FRAGMENTS.map(_page), st.binary(max_size=99).map(b"<p>".__add__)), rich=st.booleans()
)
def test_any_page_has_a_status_and_the_same_result_twice(method: ExtractMethod, page: bytes | str, rich: bool) -> None:
    options = {"include_links": rich, "include_images": rich, "prepend_title": rich, "include_formatting": not rich}
    extraction = _extract(page, method, "http://e.com/", **options)
    assert _extract(page, method, "http://e.com/", **options) == extraction
    assert (extraction.status is Status.ok) == bool(extraction.text)
    (extraction.text + (extraction.title or "")).encode()  # raises on lone surrogates


@_METHODS
@settings(deadline=None, max_examples=25)
@given(words=st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1), min_size=1, max_size=8))
def test_a_page_does_not_depend_on_the_pages_before_it(method: ExtractMethod, words: list[str]) -> None:
    page = _page(f"<p>{_SENTENCE}{' '.join(words)}</p>")
    first = _extract(page, method)
    _extract(_page(f"<p>Something else. {_SENTENCE}</p>"), method)
    assert _extract(page, method) == first
