"""Prose in pieces: lines, sentences, words, cuts and costs. Every function is linear in its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hermitcrab.messages.identifiers import extract_identifiers

_CJK_RANGES = (
    "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
    "\U00020000-\U0003ffff"
)
_CJK = re.compile(f"[{_CJK_RANGES}]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA = re.compile("[\u3041-\u30ff]")
_LATIN = re.compile("[A-Za-z]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])|(?<=[。！？；])")
_STACK_FRAME = re.compile(r"at \S.{0,300}:\d+(?::\d+)?\)?$|File \"[^\"]{1,300}\", line \d+")
_LINE_MARK = re.compile(r"(?:[-*+•>]\s+|#{1,6}\s+|\d{1,3}[.)]\s+|\[[ xX]\]\s+)")
_RUN = re.compile(f"[^\\s{_CJK_RANGES}]")
_WORD = re.compile(f"[{_CJK_RANGES}]+|[^\\W_]+(?:['’][^\\W_]+)?")
_PLAIN = re.compile(r"[\W_]+")

_SENTENCE_CHARACTERS = 2_000

#: Cost of one Latin character and of one CJK character, in thirds of a token.
_LATIN_COST, _CJK_COST = 1, 3

_STOP_WORD_LIST = """
a about an and any are as at be been but by can could did do does for from had has have he her his how i if in into is
it its just me my of on or our please she so some tell than that the their them then there these they this those to us
was we were what when where which who whom whose why will with would you your
"""
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
_CJK_STOP = frozenset("的了是吗呢吧啊在有我你他她它们么什这那哪和与就都也还为之请把被让")


def cost(text: str) -> int:
    """An estimate of a text's tokens, in thirds of a token: 3 Latin characters or 1 CJK character are a token."""
    cjk = len(_CJK.findall(text))
    return cjk * _CJK_COST + (len(text) - cjk) * _LATIN_COST


def is_chinese(text: str) -> bool:
    """Whether a reader of the text expects Chinese."""
    han = len(_HAN.findall(text))
    return han >= 2 and not _KANA.search(text) and han * 3 >= len(_LATIN.findall(text))


def one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


def prose_lines(text: str) -> Iterator[str]:
    """The lines of a text without fenced code, stack frames, list marks, heading marks and surrounding space."""
    fenced = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        elif line and not fenced and not _STACK_FRAME.match(line):
            yield one_line(without_line_mark(line))


def without_line_mark(line: str) -> str:
    """A line without the marks of lists, quotes and headings in front of it."""
    for _ in range(3):
        marked = _LINE_MARK.match(line)
        if not marked:
            break
        line = line[marked.end() :]
    return line


def sentences(line: str) -> list[str]:
    """The sentences of one line of prose; of one without an end in sight, its beginning."""
    return [
        piece[:_SENTENCE_CHARACTERS]
        for part in _SENTENCE_END.split(line)
        if (piece := part.strip())
    ]


def is_question(sentence: str) -> bool:
    return sentence.rstrip("\"'”’)）").endswith(("?", "？"))


def plain(text: str) -> str:
    """A text as it is compared: case, punctuation and spacing do not count."""
    return _PLAIN.sub(" ", text.casefold()).strip()


def without_repeats(texts: Iterable[str]) -> list[str]:
    """The texts in order, without those that say the same as an earlier one."""
    seen: set[str] = set()
    kept: list[str] = []
    for text in texts:
        key = plain(text) or text
        if key not in seen:
            seen.add(key)
            kept.append(text)
    return kept


def keywords(text: str) -> set[str]:
    """What a text is about: words without their endings and overlapping pairs of CJK characters."""
    found: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0].casefold()
        if _CJK.match(word):
            found |= _cjk_pairs(word)
        elif word not in _STOP_WORDS:
            found.add(_stem(word))
    return found


def _cjk_pairs(run: str) -> set[str]:
    pairs = {run[index : index + 2] for index in range(len(run) - 1)}
    telling = {pair for pair in pairs if not _CJK_STOP.issuperset(pair)}
    return telling or {run}


def _stem(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("’s")
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word.removesuffix("e") if len(word) > 3 else word


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, ending with … where something is missing.

    The cut falls between graphemes and never inside a word, a number or an address; a word that is longer than half
    the limit is left out whole if it is an identifier and cut otherwise.
    """
    if len(text) <= limit:
        return text
    end = _grapheme_boundary(text, limit - 1)
    start = _run_start(text, end)
    if start < end and (start > limit // 2 or _is_identifier_run(text, start)):
        end = start
    kept = text[:end].rstrip()
    return f"{kept}…" if kept else ""


def excerpt(text: str, limit: int, position: int) -> str:
    """At most ``limit`` characters of a text that contain what stands at ``position``."""
    if len(text) <= limit or position < limit * 2 // 3:
        return cut(text, limit)
    start = _run_start(text, max(0, position - limit // 3))
    if position - start > limit // 2:
        start = position
    return cut(f"…{text[start:]}", limit)


def _grapheme_boundary(text: str, limit: int) -> int:
    if limit <= 0:
        return 0
    if text[: limit + 1].isascii():
        # Of the characters of ASCII only a carriage return forms a grapheme, with the line feed behind it.
        return limit - (text[limit - 1 : limit + 1] == "\r\n")
    import regex

    end = 0
    for grapheme in regex.finditer(r"\X", text[: limit + 64]):
        if grapheme.end() > limit:
            break
        end = grapheme.end()
    return end


def _run_start(text: str, end: int) -> int:
    """Where the unbroken run of characters begins that a cut at ``end`` would split; ``end`` if it splits none."""
    start = end
    if end < len(text) and _RUN.match(text[end]):
        while start and _RUN.match(text[start - 1]):
            start -= 1
    return start


def _is_identifier_run(text: str, start: int) -> bool:
    run = re.split(f"[\\s{_CJK_RANGES}]", text[start : start + 400], maxsplit=1)[0]
    return "://" in run or bool(extract_identifiers(run))
