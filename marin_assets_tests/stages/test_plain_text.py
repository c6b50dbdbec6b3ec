"""Plain text is all that a page says, block by block."""

from marin_assets.stages.plain_text import extract_plain_text


def test_blocks_are_kept_apart_and_lines_whole() -> None:
    html = (
        "<html><head><title> A \n page</title><style>p {}</style></head><body><nav>Home</nav><h1>Bread</h1>"
        "<div>Good <b>br<i>ea</i>d</b> is\n made<p>of flour</p></div><script>var x</script><ul><li>rye<li>wheat</ul>"
    )
    assert extract_plain_text(html) == ("A page", "Bread\n\nGood bread is made\n\nof flour\n\nrye\n\nwheat")


def test_a_page_without_text_has_none() -> None:
    assert extract_plain_text("<!-- -->") == (None, "")
