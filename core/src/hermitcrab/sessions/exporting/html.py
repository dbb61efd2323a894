"""A conversation as one web page: no script, nothing from elsewhere, and everything in it escaped. Pure."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator

from hermitcrab.sessions.exporting.parts import Folded, Picture, Said, Section
from hermitcrab.sessions.exporting.text import one_line, plain

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --dim: #5c646c; --paper: #fff; --card: #f4f5f7; --line: #d5d9de;
  --user: #0b5cad; --assistant: #7a4a00; --mark: #6b3fa0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --dim: #a0a8b0; --paper: #15181b; --card: #1f2327;
  --line: #3a4148; --user: #7db8f0; --assistant: #e0b36a; --mark: #c3a5ea; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 52rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1rem; margin: 0 0 .25rem; }
h1.branch { border-top: 2px solid var(--line); padding-top: 1rem; margin-top: 2rem; font-size: 1.25rem; }
.facts, time, .remark, .label { color: var(--dim); font-size: .875rem; }
.facts { padding-left: 1.25rem; margin: 0 0 1rem; }
time { font-weight: normal; }
.label { border: 1px solid var(--line); border-radius: .5rem; padding: 0 .5rem; font-weight: normal; }
article { border-left: 3px solid var(--line); padding: .25rem 0 .25rem .75rem; margin: 1rem 0; }
article.user { border-color: var(--user); } article.user h2 { color: var(--user); }
article.assistant { border-color: var(--assistant); } article.assistant h2 { color: var(--assistant); }
article.compaction, article.branch_summary { border-color: var(--mark); background: var(--card); padding: .75rem; }
article.compaction h2, article.branch_summary h2 { color: var(--mark); }
.text, pre { white-space: pre-wrap; unicode-bidi: isolate; margin: .25rem 0; }
pre { font: .8125rem/1.45 ui-monospace, monospace; background: var(--card); padding: .5rem .75rem; overflow-x: auto; }
details { margin: .25rem 0; }
summary { cursor: pointer; color: var(--dim); font-size: .9375rem; }
summary:focus-visible { outline: 2px solid var(--user); outline-offset: 2px; }
img { max-width: 100%; height: auto; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_CLASS = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def opening(title: str, facts: list[tuple[str, str]]) -> Iterator[str]:
    """The page up to the first message."""
    shown = _inline(title)
    yield (
        '<!DOCTYPE html>\n<html>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{shown}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1 dir="auto">{shown}</h1>\n<ul class="facts">\n'
    )
    for name, value in facts:
        yield f"<li>{_inline(name)}: <bdi>{_inline(value)}</bdi></li>\n"
    yield "</ul>\n"


def remark(text: str) -> str:
    """A sentence of ours between the messages."""
    return f'<p class="remark" dir="auto">{_inline(text)}</p>\n'


def branch_title(text: str) -> str:
    """The title of a branch that was left."""
    return f'<h1 class="branch" dir="auto">{_inline(text)}</h1>\n'


def section(shown: Section) -> Iterator[str]:
    """One entry of the conversation."""
    if shown.kind == "change":
        yield remark(shown.title)
        return
    kind = shown.kind if _CLASS.fullmatch(shown.kind) else "other"
    time = f" <time>{_inline(shown.time)}</time>" if shown.time else ""
    label = f' <span class="label" dir="auto">{_inline(shown.label)}</span>' if shown.label else ""
    yield f'<article class="{kind}">\n<h2><bdi>{_inline(shown.title)}</bdi>{time}{label}</h2>\n'
    for part in shown.parts:
        if isinstance(part, Said):
            yield f'<div class="text" dir="auto">{_block(part.text)}</div>\n'
        elif isinstance(part, Picture):
            yield _picture(part)
        else:
            yield _folded(part)
    yield "</article>\n"


def _folded(part: Folded) -> str:
    text = _block(part.text)
    # The newline right behind <pre> is no part of its text, so that one of the text's own needs another before it.
    body = f'<pre tabindex="0">\n{text}</pre>' if part.is_code else _prose(text)
    return f"<details>\n<summary><bdi>{_inline(part.title)}</bdi></summary>\n{body}\n</details>\n"


def _prose(text: str) -> str:
    return f'<div class="text" dir="auto">{text}</div>'


def _picture(part: Picture) -> str:
    data = "".join(part.data.split())
    if not _BASE64.fullmatch(data):
        return remark(f"[{part.name}]")
    source = f"data:{part.mime_type};base64,{data}"
    return f'<p><img alt="{_inline(part.name)}" src="{html.escape(source)}"></p>\n'


def closing() -> str:
    """The end of the page."""
    return "</main>\n</body>\n</html>\n"


def _block(text: str) -> str:
    return html.escape(plain(text))


def _inline(text: str) -> str:
    return html.escape(one_line(text))
