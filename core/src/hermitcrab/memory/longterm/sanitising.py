"""What a person said, without what channels, plugins and hosts put around it (memory 7.5, step 1).

A wrapper is never a reason to keep a text, and never part of what is kept.
"""

from __future__ import annotations

import json
import re

from hermitcrab.memory.startup import without_startup_notes

#: Longer texts are cut before anything else looks at them.
LONGEST_INPUT = 10_000

#: A text is unwrapped at most this often; what is wrapped deeper is not somebody's words.
_MOST_LAYERS = 20

_FLAGS = re.IGNORECASE | re.DOTALL
_BLOCK_TAGS = ("relevant-memories", "relevant_memories", "active_memory_plugin", "active-memory")
_BLOCKS = re.compile(rf"<(?P<tag>{'|'.join(_BLOCK_TAGS)})\b[^>]*>.*?</(?P=tag)\s*>", _FLAGS)

#: A line that announces data of a channel, such as ``Sender (untrusted metadata):``.
_LABEL = re.compile(r"^[^\n()]{1,80}\(untrusted(?: metadata)?(?:, [^)\n]{1,60})?\):[ \t]*$", re.M)
_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\n.*?\n?```", _FLAGS)
_TAIL = re.compile(r"^[ \t]*untrusted context\b[^\n]*:[ \t]*(?:\n.*)?\Z", _FLAGS | re.M)

_CURRENT_MESSAGE = re.compile(
    r"\A.*^[ \t]*\[current message\b[^\]\n]*\][ \t]*\n?", _FLAGS | re.MULTILINE
)
_HISTORY = re.compile(
    r"^[ \t]*\[(?:chat messages since|chat history|recent messages|thread history)[^\]\n]*\].*\Z",
    _FLAGS | re.MULTILINE,
)

_DATE = r"(?:\w{3,9},? )?\d{4}-\d{2}-\d{2}[ T]\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?"
_TIME = re.compile(rf"\A\s*(?:\[{_DATE}[^\]\n]{{0,24}}\]\s*)+")
_CHANNELS = (
    "whatsapp|telegram|discord|slack|signal|imessage|bluebubbles|matrix|mattermost|google ?chat|"
    "ms ?teams|teams|line|zalo|wechat|feishu|lark|irc|nostr|twitch|webchat|sms|email|cli"
)
_ENVELOPE = re.compile(rf"\A\s*\[(?:{_CHANNELS})\b[^\]\n]{{0,300}}\]\s*", re.IGNORECASE)
#: Who speaks, behind the envelope of a channel; words that begin a sentence are nobody's name.
_SENDER = re.compile(
    r"\A(?!(?:remember|important|note|always|never|please|decision)\b)"
    r"(?:\[[^\]\n]{1,60}\]|[^\W\d_][\w.'-]*(?: [\w.'-]+){0,2}(?: \([^)\n]{1,40}\))?):[ \t]+",
    re.IGNORECASE,
)
_OWN_ENVELOPE = re.compile(
    r"\A\s*\[(?:group message|inter-session message)[^\]\n]*\][^\n]*\n", re.IGNORECASE
)

_MEDIA = re.compile(
    r"\[(?:media attached|attached media|image attached|voice note|attachment)\b[^\]\n]*\]"
    r"|<media:[^>\n]{1,80}>|\[(?:image|audio|video|document|sticker)\]",
    re.IGNORECASE,
)
_HINTS = re.compile(
    r"\[\[[^\[\]\n]{1,120}\]\]"
    r"|^[ \t]*\[message_id:[^\]\n]*\][ \t]*$"
    r"|^[ \t]*(?:delivery:|to send an image back, )[^\n]*$",
    re.IGNORECASE | re.MULTILINE,
)
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_SPACES = re.compile(r"[ \t]{2,}")


def sanitised(text: str) -> str:
    """The words of the person in ``text``; empty where there are none. What is sanitised stays as it is."""
    text = without_startup_notes(text)[:LONGEST_INPUT].strip()
    for _ in range(_MOST_LAYERS):
        unwrapped = _unwrapped(text)
        if unwrapped == text:
            return text
        text = unwrapped
    return ""


def without_recalled(text: str) -> str:
    """``text`` without the blocks of memories that recall put before it (C76)."""
    return _BLOCKS.sub("", text).strip() if "<" in text else text


def without_media(text: str) -> str:
    """``text`` without annotations of media, so that an old memory does not look like something attached now."""
    return _collapsed(_MEDIA.sub("", text))


def _unwrapped(text: str) -> str:
    text = _BLOCKS.sub("\n", text)
    text = _TAIL.sub("", text)
    text = _without_metadata(text)
    text = _CURRENT_MESSAGE.sub("", text)
    text = _HISTORY.sub("", text)
    text = _HINTS.sub("", text)
    text = _MEDIA.sub("", text)
    text = _TIME.sub("", _OWN_ENVELOPE.sub("", text))
    opened = _ENVELOPE.sub("", text)
    if opened != text:
        text = _SENDER.sub("", opened)
    return _collapsed(text)


def _without_metadata(text: str) -> str:
    """Without labelled blocks of metadata: a fenced block, a JSON value, or the lines up to a blank one."""
    parts: list[str] = []
    position = 0
    for label in _LABEL.finditer(text):
        if label.start() < position:
            continue
        parts.append(text[position : label.start()])
        position = _end_of_metadata(text, label.end())
    return "".join([*parts, text[position:]])


def _end_of_metadata(text: str, start: int) -> int:
    fence = _FENCE.match(text, start)
    if fence is not None:
        return fence.end()
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    if text[begin : begin + 1] in ("{", "["):
        try:
            return json.JSONDecoder().raw_decode(text, begin)[1]
        except (ValueError, RecursionError):
            # Cut or broken: its lines go, as those of any other block.
            pass
    blank = re.compile(r"\n[ \t]*\n").search(text, begin)
    return len(text) if blank is None else blank.end()


def _collapsed(text: str) -> str:
    return _SPACES.sub(" ", _BLANK_LINES.sub("\n\n", text)).strip()
