"""No path that a model gives leads a tool out of the workspace, and none makes it wait for ever (C96)."""

from __future__ import annotations

import asyncio
import os

import pytest

from hermitcrab.messages.text import text_of

MAIN = "agent:main:main"
SECRET = "the keys are under the mat"
ARGUMENTS = {
    "memory_get": {},
    "read": {},
    "write": {"content": "mine now"},
    "edit": {"edits": [{"oldText": "keys", "newText": "mine"}]},
}
OUTSIDE = {
    "dots behind a name": "memory/link/../../../outside/secret.md",
    "a sibling whose name begins alike": "../workspace2/secret.md",
    "dots in the middle": "memory/../../workspace2/secret.md",
    "backslashes": "memory\\..\\..\\workspace2\\secret.md",
    "an absolute path": "{home}/workspace2/secret.md",
    "NUL": "memory/a\0.md",
    "a drive": "C:\\secret.md",
    "a home": "~/secret.md",
    "another's home": "~root/secret.md",
    "a link as the file": "memory/secret.md",
    "a link on the way": "memory/linked/secret.md",
}


@pytest.fixture
def world(home):
    """A workspace with links that lead out of it, and what they lead to."""
    memory = home / "workspace/memory"
    memory.mkdir(parents=True)
    for name in ("outside", "workspace2"):
        (home / name).mkdir()
        (home / name / "secret.md").write_text(SECRET)
    (memory / "secret.md").symlink_to(home / "outside/secret.md")
    (memory / "linked").symlink_to(home / "outside")
    (memory / "link").mkdir()
    return home


@pytest.fixture
def used(open_host, crab):
    """What the model is told when it calls a tool with a path, through a whole host."""

    async def use(tool, path, **arguments):
        model = crab.ScriptedModel(
            crab.calling(tool, path=path, **(arguments or ARGUMENTS[tool])), "Done."
        )
        async with asyncio.timeout(60), open_host(model) as host:
            reply = await host.send(MAIN, "Please.")
        assert reply.text == "Done."
        return text_of(model.requests[-1].messages[-1])

    return use


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
async def test_a_path_out_of_the_workspace_is_refused_and_nothing_is_touched(
    world, used, tool, path
):
    told = await used(tool, path.format(home=world))
    assert "path" in told
    assert any(word in told for word in ("leads outside", "must be relative", "is not a path"))
    assert SECRET not in told
    for name in ("outside", "workspace2"):
        assert [file.name for file in (world / name).iterdir()] == ["secret.md"]
        assert (world / name / "secret.md").read_text() == SECRET


@pytest.mark.parametrize("tool", ["memory_get", "read", "edit"])
async def test_a_pipe_is_no_file_and_nobody_waits_for_it(world, used, tool):
    os.mkfifo(world / "workspace/memory/pipe.md")
    told = await used(tool, "memory/pipe.md")
    assert "file" in told
    assert (world / "workspace/memory/pipe.md").is_fifo()


@pytest.mark.parametrize("tool", ARGUMENTS)
async def test_a_workspace_may_be_a_link_itself(home, used, tool):
    (home / "elsewhere/memory").mkdir(parents=True)
    (home / "elsewhere/memory/note.md").write_text(SECRET)
    (home / "workspace").symlink_to(home / "elsewhere")
    told = await used(tool, "memory/note.md")
    text = (home / "elsewhere/memory/note.md").read_text()
    expected = {"write": "mine now", "edit": SECRET.replace("keys", "mine")}
    assert text == expected.get(tool, SECRET)
    if tool not in expected:
        assert SECRET in told
