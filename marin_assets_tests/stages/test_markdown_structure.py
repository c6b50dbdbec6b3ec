"""Tables stay rectangular, code stays what it was, formulas stay TeX, whichever method chose the text."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html as lxml_html

from marin_assets.stages.html_to_markdown import ExtractMethod, HtmlToMarkdownConfig
from marin_assets.stages.maths import keep_tex
from marin_assets.stages.page_extraction import PageRequest, extract_page
from marin_assets.stages.table_grid import fill_spans

_SENTENCE = "Good bread is made of flour and water, salt and time, and of the patience of those who bake it."
_METHODS = pytest.mark.parametrize("method", list(ExtractMethod))


def _markdown(content: str, method: ExtractMethod) -> str:
    first, last = f"First: {_SENTENCE} {_SENTENCE}", f"Last: {_SENTENCE} {_SENTENCE}"
    html = f"<html><body><article><h1>Bread</h1><p>{first}</p>{content}<p>{last}</p></article></body></html>"
    text = extract_page(PageRequest(html, None, HtmlToMarkdownConfig(extract_method=method))).text
    return text.partition(first)[2].rpartition(last)[0].strip("\n")


@_METHODS
@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        (
            "<tr><th>A</th><th colspan=2>B</th><th>C</th></tr><tr><td>one</td><td>two</td><td>three</td><td>4</td>",
            "| A   | B   |       | C |\n| --- | --- | ----- | --- |\n| one | two | three | 4 |",
        ),
        (
            "<tr><th>A</th><th>B</th></tr><tr><td rowspan=2>tall</td><td>two</td></tr><tr><td>three</td></tr>",
            "| A    | B     |\n| ---- | ----- |\n| tall | two   |\n|      | three |",
        ),
        (
            "<tr><th>A</th><th>B</th></tr><tr><td>one</td></tr><tr><td>one</td><td>two</td><td>three</td></tr>",
            "| A   | B   |       |\n| --- | --- | ----- |\n| one |     |       |\n| one | two | three |",
        ),
        (
            "<tr><th>A</th><th>B</th></tr><tr><td>one<br>two<p>three</p></td><td>x | <code>y|z</code></td></tr>",
            "| A             | B           |\n| ------------- | ----------- |\n| one two three | x \\| `y\\|z` |",
        ),
    ],
    ids=["colspan", "rowspan", "ragged", "blocks and pipes"],
)
def test_tables_are_rectangular(method: ExtractMethod, html: str, markdown: str) -> None:
    assert _markdown(f"<table>{html}</table>", method) == markdown


@given(
    rows=st.lists(
        st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=4), min_size=1, max_size=5
    )
)
@settings(deadline=None, max_examples=100)
def test_cells_get_the_columns_that_html_gives_them(rows: list[list[tuple[int, int]]]) -> None:
    html = "".join(
        "<tr>" + "".join(f"<td colspan={width} rowspan={height}>x</td>" for width, height in row) + "</tr>"
        for row in rows
    )
    table = lxml_html.fragment_fromstring(f"<table>{html}</table>")
    fill_spans(table)
    columns = [[column for column, cell in enumerate(row) if cell.text] for row in table.iter("tr")]
    assert columns == _columns(rows)


def _columns(rows: list[list[tuple[int, int]]]) -> list[list[int]]:
    """By the standard's algorithm, cell by cell (HTML §4.9.12.1)."""
    taken: set[tuple[int, int]] = set()
    columns: list[list[int]] = []
    for y, row in enumerate(rows):
        x, places = 0, []
        for width, height in row:
            while (x, y) in taken:
                x += 1
            places.append(x)
            taken |= {(x + right, y + down) for right in range(width) for down in range(height)}
            x += width
        columns.append(places)
    return columns


def test_spans_do_not_multiply_a_table() -> None:
    row = "<tr>" + "<td colspan=1000 rowspan=65534>x</td>" * 20 + "</tr>"
    table = lxml_html.fragment_fromstring(f"<table>{row * 20}</table>")
    started = time.process_time()
    fill_spans(table)
    assert len(list(table.iter("td"))) < 20 * 20 * 1000
    assert time.process_time() - started < 2


_CODE = 'def f():\n\tif a < b:  # ``` and ~~~~\n\n\n        return "&amp;  _x_ *y*"'


@_METHODS
@pytest.mark.parametrize(
    ("opening", "closing", "language"),
    [
        ('<pre><code class="language-python">', "</code></pre>", "python"),
        ('<pre class="brush: python; gutter: false">', "</pre>", "python"),
        ('<div class="highlight-source-python"><pre>', "</pre></div>", "python"),
        ("<pre>", "</pre>", ""),
    ],
)
def test_code_stays_as_it_is(method: ExtractMethod, opening: str, closing: str, language: str) -> None:
    html = _CODE.replace("&", "&amp;").replace("<", "&lt;").replace("return", "<span class=tag>return</span>")
    assert _markdown(f"{opening}{html}{closing}", method) == f"````{language}\n{_CODE}\n````"


@_METHODS
@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        (
            r'<p>Euler: <script type="math/tex">e^{i\pi} + 1 = 0_1 * 2_3 < 4 \; \\</script> is nice.</p>',
            r"Euler: $e^{i\pi} + 1 = 0_1 * 2_3 < 4 \; \\$ is nice.",
        ),
        (
            r'<p>Displayed:</p><script type="math/tex; mode=display">\sum_{i=1}^n' + "\n" + r" i</script>",
            "Displayed:\n\n$$\\sum_{i=1}^n i$$",
        ),
        (
            "<p>So <math><semantics><msup><mi>x</mi><mn>2</mn></msup>"
            '<annotation encoding="application/x-tex">x^2 &lt; 4</annotation></semantics></math> holds.</p>',
            "So $x^2 < 4$ holds.",
        ),
        (
            '<p>So <span class="katex"><span class="katex-mathml"><math><semantics><mi>a</mi>'
            r'<annotation encoding="application/x-tex">\alpha_1</annotation></semantics></math></span>'
            '<span class="katex-html" aria-hidden="true"><span class="base">a1</span></span></span> holds.</p>',
            r"So $\alpha_1$ holds.",
        ),
        (
            '<p>So <span class="mwe-math-element"><span class="mwe-math-mathml-inline" style="display: none;">'
            r'<math display="block" alttext="{\displaystyle y^2}"><mi>y</mi></math></span>'
            '<img src="x.svg" aria-hidden="true"></span> holds.</p>',
            r"So $${\displaystyle y^2}$$ holds.",
        ),
    ],
    ids=["MathJax", "MathJax display", "annotation", "KaTeX", "Wikipedia"],
)
def test_formulas_are_kept_as_tex(method: ExtractMethod, html: str, markdown: str) -> None:
    assert _markdown(f"{html}<p>{_SENTENCE}</p>", method) == f"{markdown}\n\n{_SENTENCE}"


@pytest.mark.parametrize(
    "piece", ["<math>", "<math", '<script type="math/tex">', "<script type=math/tex", "<annotation "]
)
def test_unclosed_formulas_take_no_longer_than_their_page(piece: str) -> None:
    started = time.process_time()
    html = piece * 100_000 + "<math></math>"
    assert keep_tex(html) == html
    assert time.process_time() - started < 2
