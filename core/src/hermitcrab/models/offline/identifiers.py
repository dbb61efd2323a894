"""Finding the identifiers of a text: what a summary must repeat letter by letter (context 5.7)."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: An identifier longer than this is not worth its place and is left out whole.
MAX_CHARACTERS = 300

_EXTENSIONS = (
    "avif|bash|bat|bin|bmp|c|cc|cfg|cjs|conf|cpp|cs|css|csv|db|dockerfile|docx?|env|exe|gguf|gif|go|gradle|graphql"
    "|gz|h|hpp|html?|ini|ipynb|java|jpe?g|js|json5?|jsonl|jsx|key|kt|kts|less|lock|log|lua|m|map|md|mdx|mjs|mm|mp[34]"
    "|parquet|patch|pdf|pem|php|pkl|png|pptx?|proto|ps1|py|pyi|pyx|r|rb|rs|rst|sass|scala|scss|sh|so|sql|sqlite3?"
    "|svelte|svg|swift|tar|tex|tf|toml|tsv?|tsx|ttf|txt|vue|wasm|wav|webp|whl|woff2?|xlsx?|xml|ya?ml|zig|zip|zsh"
)
_URL = re.compile(r"\bhttps?://[^\s<>\"'`{}|\\^\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]+")
_SPLIT = re.compile(
    r"[\s\"'`<>()\[\]{}|,;=*“”‘’…\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]+"
)
_HEX = re.compile(r"[0-9a-fA-F]{8,}")
_PATTERNS = (
    re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    _HEX,
    re.compile(r"\d{6,}"),
    re.compile(r"[A-Z][A-Z0-9]{1,9}-\d+"),
    re.compile(r"~?(?:/[\w.@+~%:#-]+){2,}/?"),
    re.compile(r"[A-Za-z]:\\[^\s]+"),
    re.compile(rf"(?:[\w.@+~-]+/)*[\w.@+~-]+\.(?:{_EXTENSIONS})(?::\d+)*", re.IGNORECASE),
    re.compile(r"(?:[A-Za-z][\w.-]*|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:]+\]):\d{2,5}"),
    re.compile(r"\d{1,3}(?:\.\d{1,3}){3}"),
)
_EDGE = ".,;:!?-"


def identifiers_in(text: str) -> list[str]:
    """The identifiers of a text in order, each once.

    UUIDs, hexadecimal runs of 8 and more, URLs, paths, file names, ``host:port``, IP addresses, ticket keys and
    numbers of 6 and more digits.
    """
    urls = [(match.start(), _trimmed_url(match[0])) for match in _URL.finditer(text)]
    rest = _URL.sub(lambda match: " " * len(match[0]), text)
    tokens = [(start, token) for start, token in _tokens(rest) if _is_identifier(token)]
    found = [token for _, token in sorted([*urls, *tokens]) if len(token) <= MAX_CHARACTERS]
    return unique_identifiers(found)


def unique_identifiers(identifiers: Iterable[str]) -> list[str]:
    """The identifiers in order, each once; the case of hexadecimal digits does not count."""
    kept: dict[str, str] = {}
    for identifier in identifiers:
        key = identifier.upper() if _HEX.fullmatch(identifier) else identifier
        kept.setdefault(key, identifier)
    return list(kept.values())


def _trimmed_url(url: str) -> str:
    url = url.rstrip(_EDGE + "*_")
    while url.endswith((")", "]")) and url.count(url[-1]) > url.count("(["[url[-1] == "]"]):
        url = url[:-1].rstrip(_EDGE)
    return url


def _tokens(text: str) -> Iterable[tuple[int, str]]:
    start = 0
    for gap in _SPLIT.finditer(text):
        yield start, text[start : gap.start()].strip(_EDGE)
        start = gap.end()
    yield start, text[start:].strip(_EDGE)


def _is_identifier(token: str) -> bool:
    if not 4 <= len(token) <= MAX_CHARACTERS:
        return False
    return any(pattern.fullmatch(token) for pattern in _PATTERNS)
