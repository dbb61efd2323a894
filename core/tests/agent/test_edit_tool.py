"""The tool ``edit``: exact, once, all or nothing, and nothing else of the file changes."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.agent.edits import MAX_DIFF_LINES, Edit, difference, edit_file, edited
from hermitcrab.agent.toolbox import Toolbox
from hermitcrab.agent.tools import ToolContext, builtin_tools
from hermitcrab.errors import ToolError

TEXT = "# Ports\n\nstaging: 5432\nproduction: 5432\nold: 1\n"


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "ports.md").write_bytes(TEXT.encode())
    return folder


@pytest.fixture
def edit(workspace):
    """Calls the tool as the model does; gives the text of the result and whether it is an error."""
    context = ToolContext(
        agent_id="main", session_key="agent:main:main", session_id="1", workspace=workspace
    )
    toolbox = Toolbox(builtin_tools(None, None), context)

    async def call(**arguments):
        call = {"id": "1", "name": "edit", "arguments": arguments}
        result = await toolbox.result_of(call, arguments)
        return result["content"][0]["text"], result["isError"]

    return call


def change(old, new):
    return {"oldText": old, "newText": new}


async def test_pieces_are_replaced_and_the_difference_is_shown(workspace, edit):
    text, is_error = await edit(
        path="ports.md",
        edits=[change("staging: 5432", "staging: 5437"), change("old: 1\n", "")],
    )
    assert not is_error
    assert (workspace / "ports.md").read_bytes() == b"# Ports\n\nstaging: 5437\nproduction: 5432\n"
    assert text.splitlines()[:4] == [
        "Edited ports.md:",
        "--- ports.md",
        "+++ ports.md",
        "@@ -1,6 +1,5 @@",
    ]
    assert "-staging: 5432\n+staging: 5437" in text
    assert "\n-old: 1" in text


async def test_a_single_edit_may_stand_in_the_arguments(workspace, edit):
    _, is_error = await edit(path="ports.md", **change("# Ports", "# All ports"))
    assert not is_error
    assert (workspace / "ports.md").read_text().startswith("# All ports\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'edits' is required"),
        ({"edits": []}, "'edits' is required"),
        ({"edits": "x"}, "'edits' must be a list"),
        ({"edits": [7]}, "'oldText' and 'newText' are required"),
        ({"edits": [{"oldText": "# Ports"}]}, "'oldText' and 'newText' are required"),
        ({"edits": [change("", "x")]}, "use the tool write"),
        ({"edits": [change("old", "old")]}, "nothing would change"),
        ({"edits": [change("5432", "1")]}, "found 2 times, in lines 3, 4"),
        ({"edits": [change("stagin: 5432", "1")]}, "nearest is line 3: 'staging: 5432'"),
        ({"edits": [change("  staging:  5432", "1")]}, "nearest is line 3: 'staging: 5432'"),
        ({"edits": [change("old: 1\nand", "1")]}, "Line 5 is as its first line"),
        ({"edits": [change("zzzzzzzz", "1")]}, "nothing in it looks like this"),
        ({"edits": [change("old", "new"), change("nowhere", "x")]}, "edits[1]: 'oldText' was not"),
        (
            {"edits": [change("old: 1", "x"), change("d: 1\n", "y")]},
            "edits[0] and edits[1] overlap",
        ),
        ({"path": "none.md", "edits": [change("a", "b")]}, "there is no such file"),
        ({"path": "folder", "edits": [change("a", "b")]}, "this is not a file"),
        ({"path": "binary", "edits": [change("a", "b")]}, "not UTF-8 text"),
        ({"path": "", "edits": [change("a", "b")]}, "'path' is required"),
    ],
)
async def test_what_does_not_apply_is_told_and_changes_nothing(workspace, edit, arguments, words):
    (workspace / "folder").mkdir()
    (workspace / "binary").write_bytes(b"a\xff\xfe")
    text, is_error = await edit(**({"path": "ports.md"} | arguments))
    assert is_error
    assert words in text
    assert (workspace / "ports.md").read_text() == TEXT
    assert sorted(os.listdir(workspace)) == ["binary", "folder", "ports.md"]


@pytest.mark.parametrize("path", ["../out.md", "/etc/hosts", "out.md", "linked/out.md", "~/x.md"])
async def test_a_path_outside_the_workspace_is_refused(workspace, edit, path):
    """C96."""
    outside = workspace.parent / "out.md"
    outside.write_text("a\n")
    (workspace / "out.md").symlink_to(outside)
    (workspace / "linked").symlink_to(workspace.parent)
    text, is_error = await edit(path=path, edits=[change("a", "b")])
    assert is_error
    assert "the path" in text
    assert outside.read_text() == "a\n"


async def test_a_link_inside_the_workspace_stays_a_link(workspace, edit):
    (workspace / "link.md").symlink_to("ports.md")
    _, is_error = await edit(path="link.md", edits=[change("# Ports", "# P")])
    assert not is_error
    assert (workspace / "link.md").is_symlink()
    assert (workspace / "ports.md").read_text().startswith("# P\n")


async def test_line_ends_byte_order_mark_and_mode_stay(workspace, edit):
    file = workspace / "run.bat"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\n")
    file.chmod(0o751)
    _, is_error = await edit(path="run.bat", edits=[change("one\ntwo\n", "1\n2\n3\n")])
    assert not is_error
    assert file.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\nthree\n"
    assert file.stat().st_mode & 0o777 == 0o751
    assert not [name for name in os.listdir(workspace) if name.startswith(".")]


def test_in_a_file_of_mixed_line_ends_new_lines_end_as_those_that_they_replace():
    assert edited("a\r\nb\r\nc\nd\n", [Edit("c\nd", "c\nx\nd")], "x") == "a\r\nb\r\nc\nx\nd\n"


def test_edits_are_looked_for_in_the_text_as_it_was():
    swapped = [Edit("left", "right"), Edit("right", "left")]
    assert edited("left or right", swapped, "x") == "right or left"


def test_occurrences_that_overlap_are_several():
    with pytest.raises(ToolError, match="found 2 times"):
        edited("aaa", [Edit("aa", "b")], "x")


def test_a_file_that_somebody_else_changed_meanwhile_is_left_alone(workspace, monkeypatch):
    file = workspace / "ports.md"

    def changed_by_another(text, edits, name):
        file.write_text("theirs")
        return "ours"

    monkeypatch.setattr("hermitcrab.agent.edits.edited", changed_by_another)
    with pytest.raises(ToolError, match="somebody else changed"):
        edit_file(file, "ports.md", [Edit("a", "b")])
    assert file.read_text() == "theirs"
    assert os.listdir(workspace) == ["ports.md"]


def test_a_read_only_file_is_refused(workspace, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(ToolError, match="read-only"):
        edit_file(workspace / "ports.md", "ports.md", [Edit("# Ports", "x")])
    assert (workspace / "ports.md").read_text() == TEXT


def test_a_long_difference_is_cut():
    before = "".join(f"{number}\n" for number in range(200))
    lines = difference(before, before.replace("0", "x"), "a").splitlines()
    assert len(lines) == MAX_DIFF_LINES + 1
    assert lines[-1].endswith("more lines of the difference]")
    assert len(difference("a", "b" * 100_000, "a")) < 1000


pieces = st.lists(st.sampled_from(["a", "b", "\n", "é"]), max_size=30).map("".join)


@settings(deadline=None)
@given(pieces, st.integers(0, 30), st.integers(1, 5), pieces)
def test_with_other_line_ends_the_same_edit_does_the_same(text, start, length, new):
    old = text[start : start + length]
    if not old or old == new or text.count(old) != 1:
        return
    try:
        expected = edited(text, [Edit(old, new)], "x")
    except ToolError:
        assert text.find(old, text.find(old) + 1) >= 0
        return
    assert expected == text[:start] + new + text[start + length :]
    crlf = text.replace("\n", "\r\n")
    if "\n" in text:
        assert edited(crlf, [Edit(old, new)], "x") == expected.replace("\n", "\r\n")
