"""`fast` keeps what a page is about, wherever the page has it, and leaves out what all its pages have."""

import pytest

from marin_assets.stages.fast_extraction import extract_fast
from marin_assets.stages.html_to_markdown import HtmlToMarkdownConfig

_SENTENCE = "Good bread is made of flour and water, salt and time, and of the patience of those who bake it."
_LONG = " ".join([_SENTENCE] * 4)


def _extract(body: str, head: str = "", **options: bool) -> tuple[str | None, str]:
    html = f"<!doctype html><html><head>{head}</head><body>{body}</body></html>"
    return extract_fast(html, None, HtmlToMarkdownConfig.model_validate(options))


@pytest.mark.parametrize(
    "noise",
    [
        "<nav><ul><li><a href=/>Noise</a></ul></nav>",
        "<header><p>Noise</p></header>",
        "<footer><p>Noise</p></footer>",
        "<aside><p>Noise</p></aside>",
        "<div role=navigation>Noise</div>",
        "<div role=dialog>Noise</div>",
        "<div class=cookie-consent>Noise</div>",
        "<div class='post shareButtons'>Noise</div>",
        "<div id=siteSidebar>Noise</div>",
        "<span class=sr-only>Noise</span>",
        "<div hidden>Noise</div>",
        "<div style='color: red; display : none'>Noise</div>",
        "<div aria-hidden=true>Noise</div>",
        "<noscript>Noise: turn on JavaScript</noscript>",
        "<button>Noise</button>",
        "<select><option>Noise</select>",
        "<svg><title>Noise</title><text>Noise</text></svg>",
        "<ul><li><a href=/a>Noise</a><li><a href=/b>Noise</a></ul>",
    ],
)
def test_noise_is_left_out(noise: str) -> None:
    expected = f"# Bread\n\n{_LONG}\n\n{_LONG}"
    assert _extract(f"<main><h1>Bread</h1><p>{_LONG}</p>{noise}<p>{_LONG}</p></main>")[1] == expected


@pytest.mark.parametrize(
    ("content", "markdown"),
    [
        (f"<div class=related-content><h1>Bread</h1><p>{_LONG}</p></div>", f"# Bread\n\n{_LONG}"),
        (f"<div class=modal><p>{_LONG}</p></div><p>{_SENTENCE}</p>", f"{_LONG}\n\n{_SENTENCE}"),
        (
            2 * f"<h2><button>Question</button></h2><div hidden><p>{_LONG}</p></div>",
            "\n\n".join(2 * [f"## Question\n\n{_LONG}"]),
        ),
        (f"<noscript><div><p>{_LONG}</p></div></noscript>", _LONG),
        (
            "<pre><span class=tag>a</span> <span class=meta>b</span></pre>" + f"<p>{_LONG}</p>",
            f"```\na b\n```\n\n{_LONG}",
        ),
    ],
    ids=["around the heading", "most of the page", "accordion", "forum for crawlers", "highlighted code"],
)
def test_content_stays_whatever_it_is_called(content: str, markdown: str) -> None:
    assert _extract(content)[1] == markdown


def test_the_main_heading_is_kept_where_it_stands_above_the_content() -> None:
    page = f"<header><h1>Bread</h1></header><div><div id=text><p>{_LONG}</p><p>{_LONG}</p></div></div><p>Imprint</p>"
    assert _extract(page)[1] == f"# Bread\n\n{_LONG}\n\n{_LONG}"


def test_all_posts_of_a_forum_stay() -> None:
    posts = "".join(f"<article class=post><p>Post {number}. {_SENTENCE}</p></article>" for number in range(5))
    text = _extract(f"<div id=thread>{posts}</div><footer>Imprint</footer>")[1]
    assert text == "\n\n".join(f"Post {number}. {_SENTENCE}" for number in range(5))


def test_the_links_of_an_index_page_are_its_content() -> None:
    links = "".join(f"<li><a href=/{number}>Loaf number {number}</a></li>" for number in range(30))
    text = _extract(f"<main><h1>Loaves</h1><ul>{links}</ul></main>")[1]
    assert text.count("Loaf number") == 30


def test_comments_and_tables_are_left_out_on_demand() -> None:
    page = (
        f"<article><h1>Bread</h1><p>{_LONG}</p><table><tr><th>Flour</th><th>g</th></tr><tr><td>Rye</td><td>1</td></tr>"
        f"</table></article><div class=comments><p>Reader: {_SENTENCE}</p></div>"
    )
    with_all = _extract(f"<div>{page}</div>")[1]
    without = _extract(f"<div>{page}</div>", include_comments=False, include_tables=False)[1]
    assert "| Rye " in with_all
    assert without == f"# Bread\n\n{_LONG}"


def test_a_page_of_one_short_text_is_that_text() -> None:
    assert _extract("<p>Gone fishing.</p>", "<title>Closed</title>") == ("Closed", "Gone fishing.")


@pytest.mark.parametrize("body", ["", "<script>x</script>", "<div></div>", "<nav></nav>"])
def test_a_page_without_text_has_none(body: str) -> None:
    assert _extract(body) == (None, "")
