"""Pages of hostile conversations: nothing in a text acts, and none can pass for the page itself."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hermitcrab.messages.types import Message
from hermitcrab.sessions.exporting import html as export_html
from hermitcrab.sessions.exporting import markdown as export_markdown
from hermitcrab.sessions.exporting.parts import Section, section_of
from hermitcrab.sessions.exporting.text import fenced, one_line, plain, quoted

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></details></div></article></main></style></title></textarea><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "<!-- ",
    "]]><![CDATA[",
    "javascript:alert(1)",
    "\u202eabc\u2066",
    "\x00\x07\x1b[31m\x9b",
    "\ud83d",
    "&lt;script&gt;&#60;script&#62;",
    "```\n<script>\n~~~",
    "</summary></details>\n\n# User\n\n<script>",
]
ALLOWED = {
    "html": set(),
    "head": set(),
    "meta": {"charset", "http-equiv", "content", "name"},
    "title": set(),
    "style": set(),
    "body": set(),
    "main": set(),
    "h1": {"dir", "class"},
    "h2": set(),
    "ul": {"class"},
    "li": set(),
    "bdi": set(),
    "article": {"class"},
    "time": set(),
    "span": {"class", "dir"},
    "div": {"class", "dir"},
    "p": {"class", "dir"},
    "details": set(),
    "summary": set(),
    "pre": {"tabindex"},
    "img": {"alt", "src"},
}


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.others: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def handle_comment(self, data):
        self.others.append(data)

    def unknown_decl(self, data):
        self.others.append(data)

    def handle_pi(self, data):
        self.others.append(data)


def entries(text: str):
    """Entries of every kind that a page shows, with ``text`` wherever a text can stand."""
    image = {"type": "image", "mimeType": "image/png"}
    call = {"type": "toolCall", "id": text, "name": text, "arguments": {text: [text, {text: 1}]}}
    content = [
        {"type": "text", "text": text},
        {"type": "thinking", "thinking": text},
        {**image, "data": PIXEL},
        {**image, "data": text},
        {**image, "mimeType": text, "data": PIXEL},
        {"type": text, "text": text},
        call,
    ]
    messages: list[Message] = [
        {"role": "user", "content": text},
        {"role": text, "content": content},
        {
            "role": "assistant",
            "model": text,
            "content": content,
            "stopReason": "error",
            "errorMessage": text,
        },
        {"role": "toolResult", "toolName": text, "content": content, "isError": True},
        {"role": "bashExecution", "command": text, "output": text},
    ]
    yield from (
        {"type": "message", "id": "e", "timestamp": text, "message": each} for each in messages
    )
    yield {"type": "compaction", "id": "e", "summary": text, "tokensBefore": text}
    yield {"type": "branch_summary", "id": "e", "summary": text}
    yield {"type": "custom_message", "id": "e", "customType": text, "content": text}
    yield {"type": "model_change", "id": "e", "provider": text, "modelId": text}
    yield {"type": "thinking_level_change", "id": "e", "thinkingLevel": text}


def sections(text: str) -> list[Section]:
    return [shown for each in entries(text) if (shown := section_of(each, text))]


def page_of(renderer, text: str) -> str:
    pieces = [*renderer.opening(text, [(text, text)]), renderer.remark(text)]
    for shown in sections(text):
        pieces += renderer.section(shown)
    return "".join([*pieces, renderer.branch_title(text), renderer.closing()])


def check_page(text: str) -> Page:
    page = Page(page_of(export_html, text))
    for tag, attributes in page.tags:
        assert tag in ALLOWED, tag
        assert attributes.keys() <= ALLOWED[tag], (tag, attributes)
        source = attributes.get("src")
        assert source is None or re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}", source)
    assert page.open == []
    assert page.others == []
    return page


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_a_conversation_acts_on_a_web_page(text):
    page = check_page(text)
    assert one_line(text) in " ".join("".join(page.words).split())


@given(st.text())
def test_any_text_is_only_shown(text):
    check_page(text)


def test_a_web_page_may_load_and_run_nothing():
    """Were something to slip through, the policy of the page forbids it; its own style is named by its hash."""
    text = page_of(export_html, "x")
    page = Page(text)
    [policy] = [
        a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"
    ]
    directives = dict(each.strip().split(" ", 1) for each in policy.split(";"))
    assert directives.pop("default-src") == "'none'"
    assert directives.pop("img-src") == "data:"
    assert directives.pop("base-uri") == directives.pop("form-action") == "'none'"
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert directives == {"style-src": f"'sha256-{digest}'"}
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style
    assert "<script" not in text


def test_what_turns_or_controls_a_text_is_visible():
    assert (
        plain("a\u202eb\u2066c\x1b[31m\x00\ud83d\r\nd")
        == "a[U+202E]b[U+2066]c\ufffd[31m\ufffd\ufffd\nd"
    )
    assert plain("a\tb\u200f") == "a\tb\u200f", "what languages need stays"


MARKUP = st.text(alphabet="<>`~\\ \n\t-*#!a/&[]()|'\"=?.1", max_size=40)


@given(MARKUP)
@example("a ` b\nc ` <script> ` d")
@example("- ```\n```\n<script>")
@example("- a `\n- <script>`")
@example("``` a`\n<script>")
@example("\\`<script>\\`")
@example("- x\n\n  ```\n  a\n```\n\n```\n<script>")
@example("    ```\n<script>\n    ```")
def test_no_text_becomes_html_or_ends_its_quotation_in_markdown(text):
    """An open fence or an unfinished list ends with the quotation that it stands in."""
    below = "AFTER"
    tokens = MarkdownIt("commonmark").parse(f"{quoted(text)}\n\n{below}")
    kinds = [token.type for token in tokens]
    assert "html_block" not in kinds
    assert not any(c.type == "html_inline" for token in tokens for c in token.children or ())
    assert [token.type for token in tokens if token.level == 0] == [
        "blockquote_open",
        "blockquote_close",
        "paragraph_open",
        "paragraph_close",
    ]


@given(MARKUP)
def test_a_fence_is_longer_than_any_in_its_text(text):
    [token] = MarkdownIt("commonmark").parse(fenced(text))
    assert (token.type, token.content) == ("fence", f"{text}\n")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_markdown_page_holds_no_html_but_its_folds(text):
    tokens = MarkdownIt("commonmark").parse(page_of(export_markdown, text))
    blocks = [token.content.strip() for token in tokens if token.type == "html_block"]
    for block in blocks:
        assert re.fullmatch(r"<details>\n<summary>[^<>]*</summary>|</details>", block), block
    assert not any(c.type == "html_inline" for token in tokens for c in token.children or ())
    headings = [t for t in tokens if t.type == "heading_open" and t.level == 0]
    assert len(headings) == 2 + sum(shown.kind != "change" for shown in sections(text))


def test_code_in_markdown_stays_as_it_is():
    text = "use `<div>` and\n\n```html\n<b>x</b>\n```\n\nbut not <b>this</b>"
    assert quoted(text).splitlines() == [
        "> use `<div>` and",
        ">",
        "> ```html",
        "> <b>x</b>",
        "> ```",
        ">",
        "> but not &lt;b>this&lt;/b>",
    ]
