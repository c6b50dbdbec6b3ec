"""What the `fast` extractor takes for no content: names of elements, roles, words in classes and ids, thresholds.

Belongs here: data, each with the reason for it. Does not: code.
"""

WITHOUT_TEXT = (
    "script", "style", "template", "iframe", "svg", "canvas", "object", "embed", "video", "audio", "map", "area",
    "select", "input", "textarea", "datalist", "progress", "meter", "link", "meta", "head", "source", "track", "param",
)  # fmt: skip
"""Elements that hold no text of the page, whatever stands in them."""

NOISE_ELEMENTS = frozenset({"nav", "aside", "header", "footer", "dialog", "menu"})
"""Elements around the content rather than in it, by the HTML standard's own definition."""

NOISE_ROLES = frozenset({
    "navigation", "search", "dialog", "alertdialog", "alert", "menu", "menubar", "toolbar", "tooltip", "contentinfo",
    "banner", "complementary",
})  # fmt: skip
"""WAI-ARIA roles of the same."""

NOISE_WORDS = frozenset({
    "nav", "navbar", "navigation", "menu", "menus", "submenu", "megamenu", "topbar", "toolbar", "breadcrumb",
    "breadcrumbs", "crumbs", "footer", "foot", "footnav", "masthead", "header", "sidebar", "sidebars", "sidenav",
    "aside", "rail", "skip", "skiplink", "toc", "pagination", "pager", "paging",
    "share", "sharing", "shares", "sharebar", "sharethis", "addthis", "sharedaddy", "social", "socials",
    "cookie", "cookies", "consent", "gdpr", "banner", "popup", "modal", "overlay", "lightbox", "tooltip", "dropdown",
    "ad", "ads", "adsbygoogle", "advert", "advertisement", "sponsor", "sponsored", "promo", "promos", "promotion",
    "promoted", "cta", "related", "recommended", "recommendations", "recirc", "newsletter", "subscribe",
    "subscription", "signup", "signin", "login", "register", "search", "searchbar", "searchform",
    "widget", "widgets", "byline", "author", "bio", "meta", "metadata", "tag", "tags", "tagcloud", "copyright",
    "legal", "disclaimer", "hidden", "visuallyhidden", "noprint",
})  # fmt: skip
"""Words of a class or id that name furniture: each must be a whole word of it, as in `post-share` or `postShare`."""

NOISE_PHRASES = ("sr-only", "screen-reader", "visually-hidden", "print-only", "skip-link")
"""The same, of several words."""

NOISE_STEMS = ("sidebar", "breadcrumb", "newsletter", "cookie", "navigation", "footer", "sharedaddy")
"""The same, also as a part of a word: they mean nothing else anywhere."""

COMMENT_WORDS = frozenset({"comment", "comments", "commentlist", "disqus", "respond"})
"""Words of a class or id that name readers' comments."""

NEVER_NOISE = frozenset({"main", "article", "h1", "body", "pre", "code", "math", "table"})
"""Elements that a class or id alone does not remove: highlighters, for one, call parts of code `tag` and `meta`."""

NOISE_SHARE = 0.5
"""What looks like noise but has this share of the page's text is content after all, wrongly named."""

HIDDEN_CHARACTERS = 300
"""Hidden elements with more text than this are kept: tabs and accordions hide content, banners are shorter."""
HIDDEN_LINK_SHARE = 0.3
"""They are menus, though, when more than this share of it are links."""

NOSCRIPT_CHARACTERS = 250
"""Shorter `<noscript>` asks for JavaScript; longer is the page itself, as forum software gives it to crawlers."""

CARD_CHARACTERS = 100
"""A link with at least this much text is a teaser with a summary, and counts as prose, not as a link."""

PROSE_CHARACTERS = 20
"""Text nodes below this length are labels rather than prose."""

MAIN_SHARE = 0.5
"""`<main>` is believed when it has this share of the page's prose."""
ARTICLE_SHARE = 0.6
"""An `<article>` is believed when it has this share of the prose around it."""
DESCENT_SHARE = 0.85
"""The main content lies in a child that has this share of an element's prose."""

LIST_LINK_SHARE = 0.6
LIST_PAGE_SHARE = 0.3
LIST_PROSE_CHARACTERS = 100
"""A block in the main content is a list of links, and goes, when more than `LIST_LINK_SHARE` of it are links, it has
less than `LIST_PAGE_SHARE` of the main text, and less prose than this."""
LISTS_SHARE = 0.7
"""Where such blocks have more than this share of the main text, the page is an index, and they are its content."""

LEAST_CHARACTERS = 200
"""With less text than this left, and half of the page's gone, nothing but lists and menus made the page: it is kept."""
