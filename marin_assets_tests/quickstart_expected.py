"""What the quick start must count, stage by stage, told by hand from how its pages were made.

Belongs here: literal numbers, each with its reason. `fixtures/build_pages.py` has the pages that they speak of. All
numbers are for default settings, and none depends on which of several copies comes first by id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class QuickstartCounts:
    """Counts of one run over all stages."""

    pages: int
    pages_by_status: Mapping[str, int] = field(hash=False)
    rows_blank: int
    rows_duplicate: int
    documents: int
    """Rows that normalization gives."""
    paragraphs: int
    duplicate_spans: int
    documents_dropped: int
    documents_consolidated: int
    documents_tokenized: int
    """Of both splits together: a hash of the id decides which document is in which."""


EXPECTED = QuickstartCounts(
    # 8 kinds of 10 pages, 4 poems, 6 lists of questions, 17 languages                                    107
    # 3 pages of proverbs, 2 of sayings, 1 walking song                                                     6
    # copies at other addresses: 3 of the same bytes, 2 in other HTML, 1 decomposed, 3 in other charsets    9
    # nothing to read: 4 records, 4 files                                                                   8
    pages=130,
    pages_by_status=MappingProxyType(
        {
            "ok": 122,  # also the page that was cut, the one cut inside a character, the one without closing tags
            "empty": 5,  # no bytes and white space only, each as record and as file; a shell that scripts would fill
            "not_html": 3,  # a PDF as record and as file; a PNG as file
        }
    ),
    rows_blank=8,  # all pages that are not ok
    rows_duplicate=9,  # the copies at other addresses
    documents=113,  # 130 - 8 - 9
    # Paragraphs of a page of each kind; headings and thematic breaks do not count:
    # recipes   5 paragraphs, 2 lists                             7 x 10   70
    # repairs   6 paragraphs, 2 lists                             8 x 10   80
    # news      5 paragraphs, 2 quotes                            7 x 10   70, less 4 on the page that was cut
    # products  6 paragraphs, 1 table                             7 x 10   70
    # forum     5 paragraphs, 1 quote                             6 x 10   60
    # docs      5 paragraphs, 1 code block, 1 table               7 x 10   70
    # travel    6 paragraphs, 1 table, 1 list                     8 x 10   80
    # science   6 paragraphs, 1 list                              7 x 10   70
    # poems     2 paragraphs, 3 stanzas                           5 x  4   20
    # faqs      4 answers                                         4 x  6   24
    # languages 3 paragraphs, 1 list                              4 x 17   68, less the list on the page that was cut
    # proverbs  3 x 3, sayings 2 x 2, the song 7                           20
    # and what is put at the end of pages, as below: 7 + 5 + 6 + 8 + 5 + 4 + 4 + 3 + 2 + 9 = 53
    paragraphs=750,
    # Places of each repeated paragraph but its first:
    # "Every recipe on this site"    7 recipes                                6
    # "Enjoy your meal!"             5 recipes                                4
    # "The Courier corrects"         6 news, 3 of them wrapped in the source  5
    # "All goods come with"          8 products                               7
    # "The examples on this page"    5 docs                                   4
    # the code block "python -m"     4 docs                                   3
    # the quote "House rule"         4 forum                                  3
    # the packing list               3 travel                                 2
    # the table of fares             2 travel                                 1
    # "This text is also read aloud" 9 languages, 2 of them decomposed        8
    # "So we walk"                   3 times in the walking song              2
    # 3 proverbs on 3 pages          3 x 2                                    6
    # 2 sayings on 2 pages           2 x 1                                    2
    duplicate_spans=53,
    documents_dropped=2,  # of the three pages with the same proverbs and no heading, the last two by id
    documents_consolidated=111,  # 113 - 2; a page of sayings that lost both still has its heading
    documents_tokenized=111,
)

DUPLICATE_SPANS_ACROSS_DOCUMENTS = 51
"""With `within_document: false`: the walking song keeps its three refrains."""

DUPLICATE_SPANS_OF_20_CHARACTERS = 49
"""With `min_paragraph_chars: 20`: "Enjoy your meal!" has 16 and stays."""
