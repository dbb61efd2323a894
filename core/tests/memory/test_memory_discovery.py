"""Which files make up memory (memory 3.3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermitcrab.memory.files import discover, load


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "memory" / "topics").mkdir(parents=True)
    return root


def write(path: Path, text: str = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def paths_of(workspace: Path, *extra: str | Path) -> list[str]:
    return [file.path for file in discover(workspace, extra).files]


def test_root_files_come_first_then_the_memory_directory_in_order(workspace: Path):
    for name in ("memory/b.md", "memory/topics/a.md", "memory/2026-01-02.md", "MEMORY.md"):
        write(workspace / name)
    write(workspace / "USER.md")
    assert paths_of(workspace) == [
        "MEMORY.md",
        "USER.md",
        "memory/2026-01-02.md",
        "memory/b.md",
        "memory/topics/a.md",
    ]


def test_other_files_are_no_memory(workspace: Path):
    for name in ("AGENTS.md", "notes.md", "memory/a.txt", "memory/a.MD", "DREAMS.md"):
        write(workspace / name)
    assert paths_of(workspace) == []


def test_a_missing_workspace_has_no_memory(tmp_path: Path):
    assert discover(tmp_path / "nowhere").files == ()


def test_symbolic_links_are_refused_at_every_level_and_reported(workspace: Path, tmp_path: Path):
    """C96: what is skipped must be said."""
    outside = write(tmp_path / "outside" / "secret.md")
    (workspace / "MEMORY.md").symlink_to(outside)
    (workspace / "memory" / "linked").symlink_to(outside.parent)
    (workspace / "memory" / "topics" / "leaf.md").symlink_to(outside)
    found = discover(workspace)
    assert found.files == ()
    assert {(skip.path, skip.reason) for skip in found.skipped} == {
        ("MEMORY.md", "is a symbolic link"),
        ("memory/linked", "is a symbolic link"),
        ("memory/topics/leaf.md", "is a symbolic link"),
    }


def test_a_workspace_that_is_a_symbolic_link_works(workspace: Path, tmp_path: Path):
    """C96: a legitimate linked root was once skipped in silence."""
    write(workspace / "memory" / "a.md")
    link = tmp_path / "link"
    link.symlink_to(workspace)
    assert paths_of(link) == ["memory/a.md"]


def test_extra_paths_are_files_or_directories_inside_or_outside(workspace: Path, tmp_path: Path):
    write(workspace / "docs" / "deep" / "a.md")
    write(tmp_path / "elsewhere" / "b.md")
    assert paths_of(workspace, "docs", "docs/deep/a.md", tmp_path / "elsewhere") == [
        "docs/deep/a.md",
        "../elsewhere/b.md",
    ]


def test_an_extra_path_that_does_not_exist_is_reported(workspace: Path):
    [skip] = discover(workspace, ["docs"]).skipped
    assert str(skip) == "docs: there is no such file or directory"


def test_a_pipe_named_like_a_note_is_reported_not_opened(workspace: Path):
    os.mkfifo(workspace / "memory" / "pipe.md")
    [skip] = discover(workspace).skipped
    assert skip.path == "memory/pipe.md"


def test_loading_reads_any_bytes_and_hashes_them(workspace: Path):
    (workspace / "memory" / "a.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo \xff\n")
    [file] = discover(workspace).files
    text, digest = load(file)
    assert text == "one\ntwo \ufffd\n"
    assert len(digest) == 64
    assert load(file) == (text, digest)
