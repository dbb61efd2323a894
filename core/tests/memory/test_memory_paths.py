"""Paths that a model gives stay inside the workspace (C96)."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.errors import PathRefusedError, ToolError
from hermitcrab.memory.files import memory_path, read_memory, safe_path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "memory").mkdir(parents=True)
    (tmp_path / "workspace2").mkdir()
    (tmp_path / "workspace2" / "x.md").write_text("other", encoding="utf-8")
    return root


@pytest.mark.parametrize(
    "path",
    [
        "",
        "  ",
        "/etc/passwd",
        "../workspace2/x.md",
        "memory/../../workspace2/x.md",
        "memory/link/../../etc/passwd",
        "memory\\..\\..\\x.md",
        "\\\\server\\share\\x.md",
        "~/x.md",
        "~root/x.md",
        "C:\\x.md",
        "c:x.md",
        "memory/a\x00.md",
        "memory/\ud83d.md",
    ],
)
def test_a_path_that_could_leave_the_workspace_is_refused(workspace: Path, path: str):
    with pytest.raises(PathRefusedError):
        safe_path(workspace, path)
    with pytest.raises(PathRefusedError):
        memory_path(workspace, path)


def test_a_path_inside_is_resolved_and_need_not_exist(workspace: Path):
    assert safe_path(workspace, "memory/new.md") == workspace / "memory" / "new.md"


def test_an_intermediate_link_that_leads_outside_is_refused(workspace: Path):
    (workspace / "memory" / "link").symlink_to(workspace.parent / "workspace2")
    with pytest.raises(PathRefusedError, match="outside the workspace"):
        safe_path(workspace, "memory/link/x.md")


def test_a_sibling_whose_name_begins_alike_is_outside(workspace: Path):
    (workspace / "memory" / "trick.md").symlink_to(workspace.parent / "workspace2" / "x.md")
    with pytest.raises(PathRefusedError, match="outside the workspace"):
        safe_path(workspace, "memory/trick.md")


def test_links_in_a_circle_are_refused(workspace: Path):
    (workspace / "a").symlink_to(workspace / "b")
    (workspace / "b").symlink_to(workspace / "a")
    with pytest.raises(PathRefusedError):
        safe_path(workspace, "a/x.md")


def test_the_workspace_itself_may_be_a_link(workspace: Path, tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(workspace)
    assert safe_path(link, "memory/a.md") == workspace / "memory" / "a.md"


@pytest.mark.parametrize(
    "path", ["MEMORY.md", "memory.md", "USER.md", "memory/a.md", "memory/x/b.md"]
)
def test_memory_files_may_be_read(workspace: Path, path: str):
    assert memory_path(workspace, path) == workspace / path


@pytest.mark.parametrize(
    "path", ["AGENTS.md", "notes/a.md", "memory/a.txt", "memory", "memory.md/x"]
)
def test_other_files_of_the_workspace_may_not(workspace: Path, path: str):
    with pytest.raises(PathRefusedError):
        memory_path(workspace, path)


def test_a_link_from_memory_to_another_file_of_the_workspace_is_refused(workspace: Path):
    (workspace / "secret.md").write_text("x", encoding="utf-8")
    (workspace / "memory" / "alias.md").symlink_to(workspace / "secret.md")
    with pytest.raises(PathRefusedError, match="not a file of memory"):
        memory_path(workspace, "memory/alias.md")


def test_an_extra_path_may_be_read_and_nothing_beside_it(workspace: Path):
    extra = [workspace.parent / "workspace2"]
    allowed = memory_path(workspace, "../workspace2/x.md", extra)
    assert allowed.read_text(encoding="utf-8") == "other"
    with pytest.raises(PathRefusedError):
        memory_path(workspace, "../workspace2/../work2.md", extra)
    (workspace.parent / "workspace2" / "out.md").symlink_to(workspace.parent / "gone.md")
    with pytest.raises(PathRefusedError):
        memory_path(workspace, "../workspace2/out.md", extra)


@given(st.text(max_size=30))
def test_whatever_the_text_the_result_is_inside_or_refused(tmp_path_factory, text: str):
    root = tmp_path_factory.getbasetemp() / "any"
    root.mkdir(exist_ok=True)
    try:
        target = safe_path(root, text)
    except PathRefusedError:
        return
    assert target.parts[: len(root.resolve().parts)] == root.resolve().parts


def test_lines_are_read_whole_within_the_limits(workspace: Path):
    (workspace / "MEMORY.md").write_text(
        "".join(f"line {number}\n" for number in range(1, 301)), encoding="utf-8"
    )
    first = read_memory(workspace, "MEMORY.md")
    assert (first.start, first.lines, first.next_start, first.truncated) == (1, 120, 121, True)
    some = read_memory(workspace, "MEMORY.md", start=299, lines=10)
    assert (some.text, some.next_start, some.truncated) == ("line 299\nline 300", None, False)
    beyond = read_memory(workspace, "MEMORY.md", start=999)
    assert (beyond.text, beyond.lines, beyond.next_start) == ("", 0, None)


def test_characters_are_limited_and_a_single_long_line_is_cut(workspace: Path):
    (workspace / "MEMORY.md").write_text("a" * 7000 + "\n" + "b" * 7000 + "\n", encoding="utf-8")
    assert read_memory(workspace, "MEMORY.md").next_start == 2
    (workspace / "USER.md").write_text("c" * 20_000, encoding="utf-8")
    cut = read_memory(workspace, "USER.md")
    assert (len(cut.text), cut.truncated, cut.next_start) == (12_000, True, None)


def test_exactly_the_limit_is_not_truncated(workspace: Path):
    (workspace / "MEMORY.md").write_text("a" * 12_000 + "\n", encoding="utf-8")
    result = read_memory(workspace, "MEMORY.md")
    assert (len(result.text), result.truncated) == (12_000, False)


def test_a_missing_file_is_not_an_error(workspace: Path):
    result = read_memory(workspace, "memory/2026-01-01.md")
    assert (result.text, result.status) == ("", "not_found")


def test_a_directory_named_like_a_note_is_an_error(workspace: Path):
    (workspace / "memory" / "a.md").mkdir()
    with pytest.raises(ToolError, match="not a file"):
        read_memory(workspace, "memory/a.md")


@pytest.mark.parametrize("kept", ["NFC", "NFD"])
def test_a_name_that_differs_only_in_unicode_form_from_one_that_is_there_is_refused(tmp_path, kept):
    other = {"NFC": "NFD", "NFD": "NFC"}[kept]
    name = "memory/café/naïve.md"
    there = tmp_path / unicodedata.normalize(kept, name)
    there.parent.mkdir(parents=True)
    there.write_text("x", encoding="utf-8")
    assert safe_path(tmp_path, unicodedata.normalize(kept, name)) == there.resolve()
    for look_alike in (name, "memory/café/other.md"):
        with pytest.raises(PathRefusedError, match="Unicode form"):
            safe_path(tmp_path, unicodedata.normalize(other, look_alike))
    assert safe_path(tmp_path, "memory/neu-ü.md").name == "neu-ü.md"
