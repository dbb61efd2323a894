"""Texts that must not become memories, and must not come back as such (memory 7.5, step 2)."""

from __future__ import annotations

import re

from hermitcrab.messages.identifiers import redact

_FLAGS = re.IGNORECASE
_RECALLED = re.compile(r"</?\s*relevant[-_]memories\b", _FLAGS)
_WRAPPER = re.compile(
    r"\(untrusted(?: metadata|, [^)\n]{1,60})\)|^[ \t]*untrusted context\b"
    r"|</?(?:active_memory_plugin|active-memory)\b"
    r"|\[(?:chat messages since|current message|inter-session message|group message)\b",
    _FLAGS | re.MULTILINE,
)
_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{0,60}"
    r"\b(?:previous|prior|above|earlier|preceding|system|developer|all|any|your|these)\b[^.!?\n]{0,40}"
    r"\b(?:instruction|prompt|rule|message|guideline|command|direction)s?\b"
    r"|\b(?:do not|don't|never) (?:follow|obey)\b[^.!?\n]{0,40}\b(?:system|developer)\b"
    r"|\b(?:system prompt|developer message|system message)s?\b"
    r"|</?\s*(?:system|assistant|developer|user|tool|function|relevant[-_]memories)\b[^>\n]{0,80}>"
    r"|\b(?:run|execute|call|invoke)\b[^\n]{0,40}\b(?:tool|command)s?\b"
    r"|(?:忽略|无视|無視|忘记|忘記)[^。！？\n]{0,12}(?:指令|指示|提示词?|提示詞|规则|規則)"
    r"|(?:以前|これまで|上記|全て|すべて)の(?:指示|命令)を(?:無視|忘れ)"
    r"|(?:이전|위의|모든)\s*(?:지시|명령)[^.!?\n]{0,8}(?:무시|잊)",
    _FLAGS,
)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*")
_LIST_LINE = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+\S", re.MULTILINE)
_EMOJI = re.compile("[\U0001f300-\U0001f9ff]")
_MOST_EMOJI = 3
_PASSWORD = re.compile(
    r"\b(?:password|passwd|passcode|passphrase|api[ _-]?key|secret(?: key)?|access token|pin(?: code)?|heslo)\b"
    r"[^.!?\n]{0,30}(?:\bis\b|\bje\b|[:=])"
    r"|(?:密码|密碼|口令|パスワード|暗証番号|비밀번호)[^。！？\n]{0,10}(?:是|为|為|は|는|:|：)",
    _FLAGS,
)


def is_injection(text: str) -> bool:
    """Whether ``text`` reads like an order to a model rather than something about a person.

    A guess by words: what it lets through is framed and escaped all the same.
    """
    return _INJECTION.search(text) is not None


def contamination(text: str) -> str | None:
    """Why ``text`` is no memory, whoever stored it: ``recalled``, ``wrapper`` or ``injection``; else ``None``."""
    if _RECALLED.search(text):
        return "recalled"
    if _WRAPPER.search(text):
        return "wrapper"
    return "injection" if is_injection(text) else None


def unfit(text: str, *, longest: int) -> str | None:
    """Why ``text``, which is sanitised, is not captured: a word for the counters; ``None`` if nothing is wrong with it.

    :param longest: in characters.
    """
    if not text:
        return "empty"
    problem = contamination(text)
    if problem is not None:
        return problem
    if _PASSWORD.search(text) or redact(text) != text:
        return "secret"
    if len(text) > longest:
        return "long"
    if text.startswith("<") and "</" in text:
        return "markup"
    if _BOLD.search(text) and _LIST_LINE.search(text):
        return "summary"
    return "emoji" if len(_EMOJI.findall(text)) > _MOST_EMOJI else None
