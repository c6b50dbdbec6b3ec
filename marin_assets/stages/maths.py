"""Keeps the TeX of formulas through parsers, extractors and the Markdown converter, as `$…$` and `$$…$$`.

Pages have it in `<script type="math/tex">` (MathJax), in the annotations of MathML (KaTeX, Wikipedia) or in MathML's
`alttext` (LaTeXML), where extractors drop it or mix it with the formula's letters.

Belongs here: finding TeX in a page, and writing it unescaped. Does not: MathML without TeX.
"""

from __future__ import annotations

import re
from html import escape, unescape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_ATTRIBUTE = "data-tex"
_SCRIPT = re.compile(
    r"""<script\b[^<>]*?\btype\s*=\s*["']?math/tex(?P<mode>[^"'<>]*)["']?[^<>]*>"""
    r"(?P<tex>(?:(?!</?script).)*)</script\s*>",
    re.DOTALL | re.IGNORECASE,
)
_MATH = re.compile(
    r"<math\b(?P<attributes>[^<>]*)>(?P<content>(?:(?!<math\b|</math).)*)</math\s*>", re.DOTALL | re.IGNORECASE
)
"""Neither reads over the start of another one, so that many unclosed ones cost no more than a page's length."""
_ANNOTATION = re.compile(
    r"""<annotation\b[^<>]*?\bencoding\s*=\s*["']?(?:application/x-tex|tex|latex)\b[^<>]*>([^<]*)""", re.IGNORECASE
)
_ALTTEXT = re.compile(r"""\balttext\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_DISPLAY = re.compile(r"""\bdisplay\s*=\s*["']?block|\bmode\s*=\s*["']?display""", re.IGNORECASE)
_HIDDEN_MATHML = re.compile(r"""(<span\b[^<>]*\bclass="mwe-math-mathml-[^"]*"[^<>]*?)\s+style="[^"]*\"""")
"""Wikipedia shows pictures of its formulas, and hides their MathML."""
_FIRST_PLACEHOLDER = 0x100001
_PLACEHOLDERS = re.compile("[\U00100001-\U0010fffd]")
"""One character for each formula: no page has them any more when it is rendered."""
_MOST_PLACEHOLDERS = 0xFFFD


def keep_tex(html: str) -> str:
    """The page with each formula that has TeX replaced by that, in an element that `hide_tex` knows."""
    if "math/tex" in html:
        html = _SCRIPT.sub(lambda script: _formula(script["tex"], script["mode"]), html)
    if "<math" in html:
        html = _MATH.sub(_of_mathml, _HIDDEN_MATHML.sub(r"\1", html))
    return html


def hide_tex(root: HtmlElement) -> list[str]:
    """Put a character in place of each formula in a tree, so that nothing in it is escaped; gives the formulas."""
    formulas: list[str] = []
    for element in root.iterfind(f".//*[@{_ATTRIBUTE}]"):
        text = (element.text or "").strip()
        if text and len(formulas) < _MOST_PLACEHOLDERS:
            element.text = chr(_FIRST_PLACEHOLDER + len(formulas))
            formulas.append(text)
    return formulas


def show_tex(markdown: str, formulas: list[str]) -> str:
    """Put the formulas back."""
    if not formulas:
        return markdown
    return _PLACEHOLDERS.sub(lambda place: formulas[ord(place[0]) - _FIRST_PLACEHOLDER], markdown)


def _of_mathml(math: re.Match[str]) -> str:
    annotation = _ANNOTATION.search(math["content"])
    alttext = _ALTTEXT.search(math["attributes"])
    if annotation is not None:
        return _formula(unescape(annotation[1]), math["attributes"])
    if alttext is not None:
        return _formula(unescape(alttext[1] or alttext[2] or ""), math["attributes"])
    return math[0]


def _formula(tex: str, mode: str) -> str:
    tex = " ".join(tex.removeprefix("% <![CDATA[").removesuffix("%]]>").split())
    if not tex:
        return ""
    mark = "$$" if _DISPLAY.search(mode) else "$"
    return f"<span {_ATTRIBUTE}>{mark}{escape(tex, quote=False)}{mark}</span>"
