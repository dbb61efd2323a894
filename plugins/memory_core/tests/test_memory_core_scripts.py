"""CJK, mixed text, identifiers and queries that break the syntax of FTS5 (C.7 of the field notes)."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermitcrab.memory import MemoryContext
from hermitcrab.memory.files import weighted_length
from hermitcrab_memory_core.backend import MemoryCore

QUESTIONS = json.loads(
    (Path(__file__).parent / "japanese_korean_notes.json").read_text(encoding="utf-8")
)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemoryCore]:
    backend = MemoryCore(
        MemoryContext(
            agent_id="main",
            workspace=tmp_path,
            home=tmp_path,
            index_path=tmp_path / "index" / "memory.sqlite",
            logger=logging.getLogger("test"),
        )
    )
    yield backend
    await backend.close()


def write(workspace: Path, path: str, text: str) -> None:
    file = workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("一起玩成语接龙吧", query)
        for query in ("龙", "接龙", "成语接", "成语接龙", "一起玩成语接龙吧")
    ]
    + [("しりとりが好き", query) for query in ("り", "しり", "しりと", "しりとり")]
    + [("カタカナのメモ", query) for query in ("カ", "カタ", "カタカナ", "ｶﾀｶﾅ")]
    + [("끝말잇기를 하자", query) for query in ("끝", "끝말", "끝말잇", "끝말잇기")]
    + [("今天部署了React组件到k8s集群", query) for query in ("React组件", "k8s", "部署", "集群")]
    + [("用微信发送API密钥", query) for query in ("API密钥", "微信", "api")],
)
async def test_queries_of_one_character_and_more_find_what_is_there(
    memory: MemoryCore, tmp_path: Path, text: str, query: str
):
    """C59, memory pitfalls 5 and 6: a run of CJK is no single word."""
    write(tmp_path, "memory/a.md", f"- nothing of the kind\n- {text}\n- 别的内容 ほか 다른\n")
    result = await memory.search(query)
    assert any(text in hit.snippet for hit in result.hits)


async def test_every_message_with_two_characters_is_found(memory: MemoryCore, tmp_path: Path):
    """C61: 0 of 8 with the trigram tokenizer."""
    for number in range(8):
        write(tmp_path, f"memory/{number}.md", f"- 第{number}条 服务器又静默失败了\n")
    result = await memory.search("静默", max_results=20)
    assert len(result.hits) == 8


@pytest.mark.parametrize(
    "query",
    [
        "pre-edit",
        "don't",
        "foo:bar",
        'say "hello',
        "star*",
        "alpha AND",
        "NEAR(alpha",
        "(alpha",
        "alpha) OR",
        "{words} : alpha",
        "^alpha",
        "-alpha",
        "alpha;--",
        "v1.2.3-rc.4",
        "src/hermitcrab/cli.py",
        "parse_config_file",
        "parseConfigFile",
    ],
)
async def test_text_that_breaks_fts_syntax_is_only_text(
    memory: MemoryCore, tmp_path: Path, query: str
):
    """C62: what a user types is never syntax; identifiers are found whole."""
    lines = (
        "the pre-edit hook ran",
        "she said don't",
        "foo:bar is the label",
        "we say hello",
        "a star was born",
        "alpha comes first",
        "released v1.2.3-rc.4",
        "see src/hermitcrab/cli.py",
        "call parse_config_file",
        "then parseConfigFile",
    )
    write(tmp_path, "memory/a.md", "\n\n".join(f"{line} {'x' * 60}" for line in lines) + "\n")
    result = await memory.search(query)
    assert result.hits
    bare = query.strip('(){}^-*;"').split()[-1 if query.startswith("{") else 0]
    expected = {"say": "hello", "NEAR(alpha": "alpha"}.get(bare, bare.rstrip("*);-"))
    assert expected in result.hits[0].snippet


@pytest.mark.parametrize("query", ["", "   ", '"', "*", "()", "🦀", "\x00", "\ud83d"])
async def test_queries_without_any_term_find_nothing_and_break_nothing(
    memory: MemoryCore, tmp_path: Path, query: str
):
    """C57 and C62: signs alone and a lone surrogate."""
    write(tmp_path, "memory/a.md", "- something\n")
    assert (await memory.search(query)).hits == ()


@pytest.mark.parametrize("language", ["japanese", "korean"])
async def test_questions_in_japanese_and_korean_find_their_notes(
    memory: MemoryCore, tmp_path: Path, language: str
):
    """Keyword recall within 1,000 tokens is at least .90, over 40 questions."""
    pairs = QUESTIONS[language]
    assert len(pairs) == 40
    for start in range(0, len(pairs), 5):
        blocks = "\n\n".join(note for note, _ in pairs[start : start + 5])
        write(tmp_path, f"memory/2026-03-{start + 1:02}.md", f"# {start}\n\n{blocks}\n")
    found = 0
    for note, question in pairs:
        left = 1000.0
        for hit in (await memory.search(question, max_results=50)).hits:
            left -= weighted_length(hit.snippet) / 4
            if left < 0:
                break
            if note in hit.snippet:
                found += 1
                break
    assert found / len(pairs) >= 0.90
