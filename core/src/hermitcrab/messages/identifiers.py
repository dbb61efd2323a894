"""Identifiers and credentials in texts: what must survive word for word, and what must not (context 5.7, design 7).

All patterns are linear: hostile text of any size costs time in proportion to its length (C41).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MINIMUM_LENGTH = 4
#: A longer identifier would be a text of its own.
MAXIMUM_LENGTH = 512
REDACTED = "[redacted credential]"
_REDACTION = "[redacted"

_EXTENSIONS = (
    "bash|bat|bin|c|cc|cfg|conf|cpp|cs|css|csv|db|diff|dll|doc|docx|env|exe|gif|go|gz|h|hpp|html|ini|ipynb|java|jpeg|"
    "jpg|js|json|jsonl|jsx|kt|lock|log|lua|md|mjs|parquet|patch|pdf|php|pl|png|proto|ps1|py|pyi|r|rb|rs|scala|sh|sql|"
    "sqlite|svg|swift|tar|tex|tf|toml|ts|tsv|tsx|txt|vue|wasm|whl|xlsx|xml|yaml|yml|zip|zsh"
)
#: Letters of scripts without spaces: an identifier may stand right behind or before one.
_HAN = (
    "\u2e80-\u2fff\u3005-\u3007\u3021-\u3029\u3031-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff"
    "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f"
)
#: Punctuation of those scripts.
_MARKS = "\u3000-\u3002\u3008-\u301f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_WORD = f"[^\\W{_HAN}]"
_START, _END = f"(?<!{_WORD})", f"(?!{_WORD})"
_NAME = f"(?:{_WORD}|[.@+-])"
_HAN_NAME = f"(?:[\\w.@+-]){{0,80}}(?<=[{_HAN}])\\.(?=[a-z])(?:{_EXTENSIONS}){_END}"
_PATTERN = re.compile(
    rf"(?P<url>https?://[^\s<>\"'`{_HAN}{_MARKS}]{{1,500}})"
    rf"|(?P<uuid>{_START}[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}{_END})"
    rf"|(?P<windows>{_START}[A-Za-z]:\\[^\s\"'`<>|*?{_HAN}{_MARKS}]{{2,260}})"
    rf"|(?P<posix>{_START}(?<![.~/:@+-])~?(?:/[\w.@+-]{{1,255}}(?=/)){{1,40}}/(?:{_HAN_NAME}|{_NAME}{{1,255}}))"
    rf"|(?P<ticket>{_START}[A-Z][A-Z0-9]{{1,9}}-[0-9]{{1,8}}{_END})"
    rf"|(?P<port>{_START}(?<![.-])[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,252}}[A-Za-z0-9])?:[0-9]{{2,5}}{_END}(?!\.[0-9]))"
    rf"|(?P<file>{_START}(?<![./@+-])(?:{_NAME}{{1,255}}/){{0,40}}(?:{_WORD}|[@+-]){_NAME}{{0,254}}"
    rf"\.(?:{_EXTENSIONS}){_END}(?!{_NAME}{{0,255}}/)(?::[0-9]{{1,7}}{_END}){{0,2}})"
    rf"|(?P<named>(?<![{_HAN}])[{_HAN}]{_HAN_NAME})"
    rf"|(?P<hex>{_START}(?<![0-9]\.)(?:0[xX])?(?=[0-9]{{0,128}}[A-Fa-f])[0-9A-Fa-f]{{8,128}}{_END})"
    rf"|(?P<digits>{_START}(?<!\.)[0-9]{{6,40}}{_END}(?!\.[0-9]))"
)
#: What looks like a file name in code and is none.
_NO_FILES = frozenset({"console.log", "process.env", "Math.log", "math.log", "np.log"})
_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}")
#: What stands so often in a text as a part of something longer is not looked for any further.
_MOST_OCCURRENCES = 5_000
_WORD_RUN = re.compile(r"[A-Za-z0-9_]+")
_TRAILING = ".,;:!?)]}>'\"`*"

_APART = "(?<![A-Za-z0-9])"
_CREDENTIAL = re.compile(
    _APART + r"(?:sk|pk|rk)[-_](?:[A-Za-z0-9_-]{16,200})"
    rf"|{_APART}gh[pousr]_[A-Za-z0-9]{{20,255}}|{_APART}github_pat_[A-Za-z0-9_]{{20,255}}"
    rf"|{_APART}xox[abprs]-[A-Za-z0-9-]{{10,255}}"
    rf"|{_APART}(?:AKIA|ASIA)[0-9A-Z]{{16}}(?![0-9A-Za-z])"
    rf"|{_APART}AIza[0-9A-Za-z_-]{{30,60}}"
    rf"|{_APART}eyJ[A-Za-z0-9_-]{{10,2000}}\.[A-Za-z0-9_-]{{10,2000}}\.[A-Za-z0-9_-]{{5,2000}}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{0,10000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
    r"|(?i:(?<=bearer )[A-Za-z0-9._~+/-]{16,2000}=*)"
    r"|(?<=://)[^\s:/@]{1,64}:[^\s/@]{3,200}(?=@)"
)
_NAMED_SECRET = re.compile(
    r"(?i)(?<![a-z0-9])((?:[a-z0-9]{1,30}[_-]){0,3}(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)"
    r"[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?)([^\s\"',;]{8,200})"
)


def extract_identifiers(text: str) -> list[str]:
    """Identifiers in the order in which they appear, each once; credential-shaped strings are none."""
    found: dict[str, str] = {}
    for match in _PATTERN.finditer(redact(text)):
        value = _without_punctuation(match.group())
        if not MINIMUM_LENGTH <= len(value) <= MAXIMUM_LENGTH or _REDACTION in value:
            continue
        if value in _NO_FILES or (match.lastgroup == "port" and _TIME.fullmatch(value)):
            continue
        found.setdefault(normal_form(value), value)
    return list(found.values())


def _without_punctuation(value: str) -> str:
    """Without what ends a sentence or a quotation; a closing bracket stays where the value opens it."""
    while value and value[-1] in _TRAILING:
        if value[-1] == ")" and value.count("(") >= value.count(")"):
            break
        value = value[:-1]
    return value


def _is_hex(identifier: str) -> bool:
    return re.fullmatch(r"[0-9A-Fa-f]{8,}", identifier.replace("-", "")) is not None


def normal_form(identifier: str) -> str:
    """Pure hex is the same in either case; everything else is itself."""
    return identifier.upper() if _is_hex(identifier) else identifier


def missing_identifiers(text: str, identifiers: Iterable[str]) -> list[str]:
    """Those identifiers that do not stand in ``text`` as whole tokens."""
    listed = list(identifiers)
    upper = text.upper() if any(map(_is_hex, listed)) else text
    return [one for one in listed if not _stands_in(upper if _is_hex(one) else text, one)]


def _stands_in(text: str, identifier: str) -> bool:
    wanted = normal_form(identifier)
    start = text.find(wanted)
    for _ in range(_MOST_OCCURRENCES):
        if start < 0:
            return False
        if _is_whole(text, start, start + len(wanted)):
            return True
        # Where it begins inside of a word, all that follows in that word does so too.
        word = _WORD_RUN.match(text, start) if _is_word(text[start - 1 : start]) else None
        start = text.find(wanted, word.end() if word else start + 1)
    return False


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether ``text[start:end]`` is no part of a longer word, number or path."""
    before, after = text[start - 1 : start], text[end : end + 2]
    first, last = text[start], text[end - 1]
    if first in "/~" and before and (_is_word(before) or before in ".~/:@+-"):
        return False
    is_url = text.startswith(("https://", "http://"), start, end)
    if not is_url and _is_word(first) and _is_word(before):
        return False
    if first in "/~" and after[:1] in ("/", "-") and _is_word(after[1:]):
        return False
    if text[start + 1 : start + 3] == ":\\" and after[:1] == "\\" and _is_word(after[1:]):
        return False
    return not (_is_word(last) and _is_word(after[:1]))


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def redact(text: str) -> str:
    """Replace what looks like a credential."""
    text = _CREDENTIAL.sub(REDACTED, text)
    return _NAMED_SECRET.sub(lambda match: match.group(1) + REDACTED, text)


def unique_identifiers(identifiers: Iterable[str]) -> list[str]:
    """The identifiers in order, each once; the case of hexadecimal digits does not count."""
    kept: dict[str, str] = {}
    for identifier in identifiers:
        kept.setdefault(normal_form(identifier), identifier)
    return list(kept.values())
