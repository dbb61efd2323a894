"""Identifiers that a summary must not lose, and credentials that it must not keep (context 5.7, design 7).

All patterns are linear: hostile text of any size costs time in proportion to its length (C41).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attrs import frozen

from hermitcrab.messages.tokens import TokenCounter

MINIMUM_LENGTH = 4
#: A longer identifier would be a text of its own.
MAXIMUM_LENGTH = 512
REDACTED = "[redacted credential]"

_EXTENSIONS = (
    "bash|bat|bin|c|cc|cfg|conf|cpp|cs|css|csv|db|diff|dll|doc|docx|env|exe|gif|go|gz|h|hpp|html|ini|ipynb|java|jpeg|"
    "jpg|js|json|jsonl|jsx|kt|lock|log|lua|md|mjs|parquet|patch|pdf|php|pl|png|proto|ps1|py|pyi|r|rb|rs|scala|sh|sql|"
    "sqlite|svg|swift|tar|tex|tf|toml|ts|tsv|tsx|txt|vue|wasm|whl|xlsx|xml|yaml|yml|zip|zsh"
)
_PATTERN = re.compile(
    r"(?P<url>https?://[^\s<>\"'`，。；、）】」]{1,500})"
    r"|(?P<uuid>\b[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}\b)"
    r"|(?P<windows>\b[A-Za-z]:\\[^\s\"'`<>|*?]{2,260})"
    r"|(?P<posix>(?<![\w.~/:-])~?/[\w.@+-]{1,255}(?:/[\w.@+-]{1,255}){1,40})"
    r"|(?P<ticket>\b[A-Z][A-Z0-9]{1,9}-[0-9]{1,8}\b)"
    r"|(?P<port>(?<![\w.-])[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?:[0-9]{2,5}\b(?![.\d]))"
    r"|(?P<file>(?<![\w./-])(?:[\w.@+-]{1,255}/){0,40}[\w@+-][\w.@+-]{0,254}\.(?:"
    + _EXTENSIONS
    + r")\b(?![\w.-]*/))"
    r"|(?P<hex>\b(?=[0-9A-Fa-f]*[0-9])(?=[0-9A-Fa-f]*[A-Fa-f])[0-9A-Fa-f]{8,128}\b)"
    r"|(?P<digits>(?<![\w.])[0-9]{6,40}(?![\w]|\.[0-9]))"
)
_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}")
_TRAILING = ".,;:!?)]}>'\"`*_，。；：！？）】」"

_CREDENTIAL = re.compile(
    r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9_-]{16,200})"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,255}|\bgithub_pat_[A-Za-z0-9_]{20,255}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,255}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bAIza[0-9A-Za-z_-]{30,60}"
    r"|\beyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{5,2000}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[A-Za-z0-9+/=\s]{0,10000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
    r"|(?i:(?<=bearer )[A-Za-z0-9._~+/-]{16,2000}=*)"
)
_NAMED_SECRET = re.compile(
    r"(?i)\b((?:[a-z0-9]{1,30}[_-]){0,3}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)"
    r"[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?)([^\s\"',;]{8,200})"
)


@frozen(kw_only=True)
class IdentifierSelection:
    """Identifiers of what is summarised: those that must stand in the text, and all others, newest first."""

    required: tuple[str, ...]
    others: tuple[str, ...]


def extract_identifiers(text: str) -> list[str]:
    """Identifiers in the order in which they appear, each once; credential-shaped strings are none."""
    found: dict[str, str] = {}
    for match in _PATTERN.finditer(redact(text)):
        value = match.group().rstrip(_TRAILING)
        if not MINIMUM_LENGTH <= len(value) <= MAXIMUM_LENGTH or REDACTED in value:
            continue
        if match.lastgroup == "port" and _TIME.fullmatch(value):
            continue
        found.setdefault(normal_form(value), value)
    return list(found.values())


def _is_hex(identifier: str) -> bool:
    return re.fullmatch(r"[0-9A-Fa-f]{8,}", identifier.replace("-", "")) is not None


def normal_form(identifier: str) -> str:
    """Pure hex is the same in either case; everything else is itself."""
    return identifier.upper() if _is_hex(identifier) else identifier


def missing_identifiers(text: str, identifiers: Iterable[str]) -> list[str]:
    """Those identifiers that do not stand in ``text`` as whole tokens."""
    upper = text.upper()
    return [one for one in identifiers if not _stands_in(upper if _is_hex(one) else text, one)]


def _stands_in(text: str, identifier: str) -> bool:
    wanted = normal_form(identifier)
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        before = text[start - 1] if start else " "
        after = text[end] if end < len(text) else " "
        if not (before.isalnum() and wanted[0].isalnum() and before.isascii()) and not (
            after.isalnum() and wanted[-1].isalnum() and after.isascii()
        ):
            return True
        start = text.find(wanted, start + 1)
    return False


def select_identifiers(
    newest_first: Sequence[str], everything: Iterable[str], *, limit: int, counter: TokenCounter
) -> IdentifierSelection:
    """Those that must stand in the summary: as many as fit ``limit`` tokens, newest first (design 7).

    :param newest_first: candidates, in order of preference.
    :param everything: all identifiers of what is summarised; those not required are the others.
    """
    required: dict[str, str] = {}
    left = limit
    for identifier in newest_first:
        cost = counter.text(f"- {identifier}\n") + 1
        if normal_form(identifier) in required or cost > left:
            continue
        left -= cost
        required[normal_form(identifier)] = identifier
    others = {normal_form(one): one for one in (*newest_first, *everything)}
    return IdentifierSelection(
        required=tuple(required.values()),
        others=tuple(one for form, one in others.items() if form not in required),
    )


def redact(text: str) -> str:
    """Replace what looks like a credential."""
    text = _CREDENTIAL.sub(REDACTED, text)
    return _NAMED_SECRET.sub(lambda match: match.group(1) + REDACTED, text)
