"""Our page stage by each of its methods against plain trafilatura and resiliparse: quality and processor time.

With a folder of pages and their gold texts (`*.html.gz` beside `gold.jsonl.gz`, each line with `file`, `page_type`,
`main_content`) the score is that of WCXB: F1 of words, lower-cased and counted, of the text without Markdown's syntax,
mean over pages. Without one, the quick start's own pages are measured for speed alone. Methods take turns on
every page, several times; a page's time is the median, so that a noisy moment falls on all methods or on none.

Environment:
    BENCHMARK_PAGES: the folder; `python -m benchmarks extraction --pages DIR` sets it.
"""

import gzip
import json
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from benchmarks.results_page import machine
from marin_assets.stages.html_to_markdown import ExtractMethod, HtmlToMarkdownConfig
from marin_assets.stages.page_extraction import PageRequest, extract_page
from marin_assets.stages.page_reading import read_pages
from marin_assets.stages.page_slices import PageSlice
from marin_assets.stages.raw_html import raw_html

QUICKSTART = Path(__file__).resolve().parents[1] / "fixtures" / "quickstart"
ROUNDS = 3
LEAST_CHARACTERS = 100
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Sample:
    """A page, and what its main content is if that is known."""

    html: bytes
    page_type: str = "all"
    main_content: str | None = None


@dataclass(frozen=True)
class Result:
    """What a method made of a page."""

    page_type: str
    f1: float | None
    seconds: float


def _ours(method: ExtractMethod) -> Callable[[bytes], str]:
    config = HtmlToMarkdownConfig(extract_method=method)
    return lambda html: extract_page(PageRequest(html, None, config)).text


def _plain_trafilatura(*, fast: bool) -> Callable[[bytes], str]:
    import trafilatura

    return lambda html: trafilatura.extract(html, output_format="markdown", fast=fast, with_metadata=False) or ""


def _plain_resiliparse(html: bytes) -> str:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    text: str = extract_plain_text(bytes_to_str(html, detect_encoding(html)), main_content=True)
    return text


def _methods() -> dict[str, Callable[[bytes], str]]:
    ours = {f"ours, {method}": _ours(method) for method in ExtractMethod}
    return ours | {
        "plain trafilatura": _plain_trafilatura(fast=False),
        "plain trafilatura, fast": _plain_trafilatura(fast=True),
        "plain resiliparse": _plain_resiliparse,
    }


def measure() -> str:
    """The section of the results page."""
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    folder = os.environ.get("BENCHMARK_PAGES")
    samples = _gold_pages(Path(folder)) if folder else _quickstart_pages()
    methods = _methods()
    for extract in methods.values():
        extract(samples[0].html)  # imports and first-time tables
    results: dict[str, list[Result]] = {name: [] for name in methods}
    for sample in samples:
        for name, result in _measure_page(sample, methods).items():
            results[name].append(result)
    source = f"{len(samples)} pages of {'WCXB' if folder else 'the quick start'}"
    size = fmean(len(sample.html) for sample in samples) / 1000
    return f"## Extraction\n\n{source}, {size:.0f} kB on average. {machine()}.\n\n{_table(results)}\n"


def _quickstart_pages() -> list[Sample]:
    """Pages of some length: on the shortest, time for a call is all there is to measure."""
    pages = [
        page.html.encode() if isinstance(page.html, str) else page.html
        for file in raw_html(QUICKSTART).files
        for page in read_pages(PageSlice(file), max_page_bytes=1 << 24)
    ]
    return [Sample(html) for html in pages if len(html) > LEAST_CHARACTERS]


def _gold_pages(folder: Path) -> list[Sample]:
    with gzip.open(folder / "gold.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [
        Sample(gzip.decompress((folder / record["file"]).read_bytes()), record["page_type"], record["main_content"])
        for record in records
    ]


def _measure_page(sample: Sample, methods: dict[str, Callable[[bytes], str]]) -> dict[str, Result]:
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    texts: dict[str, str] = {}
    for _ in range(ROUNDS):
        for name, extract in methods.items():
            started = time.process_time()
            texts[name] = extract(sample.html)
            seconds[name].append(time.process_time() - started)
    return {
        name: Result(
            sample.page_type,
            None if sample.main_content is None else f1(texts[name], sample.main_content),
            median(seconds[name]),
        )
        for name in methods
    }


def f1(markdown: str, main_content: str) -> float:
    """Harmonic mean of precision and recall of the words."""
    found, wanted = _words(markdown), _words(main_content)
    common = (found & wanted).total()
    if not found or not wanted:
        return float(found == wanted)
    return 2 * common / (found.total() + wanted.total())


def _words(markdown: str) -> Counter[str]:
    return Counter(WORD.findall(LINK.sub(r"\1", IMAGE.sub(" ", markdown)).lower()))


def _table(results: dict[str, list[Result]]) -> str:
    first = next(iter(results.values()))
    counts = Counter(result.page_type for result in first)
    has_score = first[0].f1 is not None
    types = [page_type for page_type, _ in counts.most_common()] if has_score else []
    head = ["", "pages a second and core", "ms a page", "times plain trafilatura's speed"]
    head += ["F1", *(f"{page_type} ({counts[page_type]})" for page_type in types)] if has_score else []
    reference = fmean(result.seconds for result in results["plain trafilatura"])
    rows = []
    for name, measured in results.items():
        mean = fmean(result.seconds for result in measured)
        rows.append([name, f"{1 / mean:.0f}", f"{1000 * mean:.2f}", f"{reference / mean:.1f}"])
        if has_score:
            rows[-1] += [_mean_f1(measured), *(_mean_f1([r for r in measured if r.page_type == t]) for t in types)]
    return "\n".join(map(_line, [head, ["---"] * len(head), *rows]))


def _mean_f1(results: Sequence[Result]) -> str:
    return f"{fmean(result.f1 for result in results if result.f1 is not None):.3f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
