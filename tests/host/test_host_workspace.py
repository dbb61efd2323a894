"""What the workspace gives to the prompt, and what the tools may touch of it (memory 1.2, 1.3, design 7)."""

from __future__ import annotations

import pytest

from hermitcrab.sessions import InboundMessage

MAIN = "agent:main:main"


@pytest.fixture
def workspace(home):
    folder = home / "workspace"
    folder.mkdir(parents=True)
    return folder


async def _system_prompt(open_host, crab, key=MAIN, **config):
    model = crab.ScriptedModel()
    async with open_host(model, config=config) as host:
        await host.send(key, "hello")
    return model.requests[0].system


async def test_the_files_of_the_workspace_are_in_the_prompt_anew_at_each_turn(
    open_host, crab, workspace
):
    (workspace / "AGENTS.md").write_text("Answer in rhymes.")
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        await host.send(MAIN, "hello")
        (workspace / "AGENTS.md").write_text("Answer in prose.")
        await host.send(MAIN, "hello")
    assert "Answer in rhymes." in model.requests[0].system
    assert "Answer in prose." in model.requests[1].system
    assert "rhymes" not in model.requests[1].system


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (MAIN, True),
        ("agent:main:telegram:direct:123", True),
        ("agent:main:telegram:group:123", False),
        ("agent:main:slack:channel:general", False),
        ("agent:main:telegram:group:123:topic:5", False),
        ("agent:main:subagent:77", False),
        ("agent:main:cron:daily", False),
    ],
)
async def test_long_term_memory_is_shown_in_private_sessions_only(
    open_host, crab, workspace, key, shown
):
    (workspace / "MEMORY.md").write_text("The safe opens with 4711.")
    prompt = await _system_prompt(open_host, crab, key)
    assert ("4711" in prompt) is shown


async def test_a_message_to_a_group_never_shows_long_term_memory(open_host, crab, workspace):
    (workspace / "MEMORY.md").write_text("The safe opens with 4711.")
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        message = InboundMessage(text="hi", channel="telegram", chat_type="group", peer="42")
        reply = await host.receive(message)
    assert reply.session_key == "agent:main:telegram:group:42"
    assert "4711" not in model.requests[0].system


async def test_a_large_file_is_cut_to_its_head_and_tail(open_host, crab, workspace):
    (workspace / "AGENTS.md").write_text("a" * 30_000 + "z" * 30_000)
    prompt = await _system_prompt(open_host, crab, agents={"defaults": {"contextTokens": 100_000}})
    assert prompt.count("a" * 14_000) == 1
    assert "a" * 14_200 not in prompt
    assert "z" * 4_000 in prompt
    assert "z" * 4_200 not in prompt
    assert "42000 characters of AGENTS.md left out" in prompt


async def test_the_file_about_the_user_has_a_smaller_cap(open_host, crab, workspace):
    (workspace / "USER.md").write_text("u" * 10_000)
    prompt = await _system_prompt(open_host, crab)
    assert 2_800 <= prompt.count("u" * 100) * 100 <= 4_000


async def test_all_files_together_keep_to_the_total(open_host, crab, workspace):
    for name in ("AGENTS.md", "SOUL.md", "TOOLS.md"):
        (workspace / name).write_text("#" * 5_000)
    defaults = {"bootstrapMaxChars": 4_000, "bootstrapTotalMaxChars": 6_000}
    prompt = await _system_prompt(open_host, crab, agents={"defaults": defaults})
    assert 4_000 <= prompt.count("#") <= 6_000


async def test_a_link_out_of_the_workspace_is_not_shown(open_host, crab, workspace, tmp_path):
    (tmp_path / "secret.md").write_text("The safe opens with 4711.")
    (workspace / "AGENTS.md").symlink_to(tmp_path / "secret.md")
    assert "4711" not in await _system_prompt(open_host, crab)


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
@pytest.mark.parametrize(
    "path",
    [
        "../secret.md",
        "notes/../../secret.md",
        "link/secret.md",
        "secret_link.md",
        "a\x00b",
        "~/secret.md",
        "ABSOLUTE",
        "../workspace2/secret.md",
    ],
)
async def test_a_path_that_leads_outside_is_refused(open_host, crab, workspace, tool, path):
    """C96"""
    outside = workspace.parent / "secret.md"
    outside.write_text("4711")
    (workspace.parent / "workspace2").mkdir()
    (workspace.parent / "workspace2" / "secret.md").write_text("4711")
    (workspace / "link").symlink_to(workspace.parent)
    (workspace / "secret_link.md").symlink_to(outside)
    path = str(outside) if path == "ABSOLUTE" else path
    change = {"content": "overwritten", "oldText": "4711", "newText": "overwritten"}
    model = crab.ScriptedModel(crab.calling(tool, path=path, **change))
    async with open_host(model) as host:
        reply = await host.send(MAIN, "Do it.")
    result = reply.messages[2]
    assert result["isError"]
    assert "workspace" in str(result["content"])
    assert "4711" not in str(result["content"])
    assert outside.read_text() == "4711"
    assert (workspace.parent / "workspace2" / "secret.md").read_text() == "4711"


async def test_a_workspace_that_is_a_link_itself_works(open_host, crab, home, tmp_path):
    """C96, the reverse: a legitimate link as the root must not be refused."""
    (tmp_path / "real").mkdir()
    home.mkdir()
    (home / "workspace").symlink_to(tmp_path / "real")
    model = crab.ScriptedModel(crab.calling("write", path="notes/a.md", content="kept"))
    async with open_host(model) as host:
        reply = await host.send(MAIN, "Do it.")
    assert not reply.messages[2]["isError"]
    assert (tmp_path / "real/notes/a.md").read_text() == "kept"


async def test_two_agents_share_neither_workspace_nor_memory_nor_sessions(open_host, crab, home):
    config = {"agents": {"list": [{"id": "main"}, {"id": "work"}]}}
    for name, secret in (("workspace", "heron"), ("workspace-work", "badger")):
        (home / name).mkdir(parents=True)
        (home / name / "MEMORY.md").write_text(f"The secret animal is the {secret}.")
    search = crab.calling("memory_search", query="secret animal")
    read = crab.calling("read", path="MEMORY.md")
    for key, own, other in (
        (MAIN, "heron", "badger"),
        ("agent:work:main", "badger", "heron"),
    ):
        model = crab.ScriptedModel(search, read, "done")
        async with open_host(model, config=config) as host:
            reply = await host.send(key, "Which one?")
            assert other not in str(model.requests[0].system)
            found = str(reply.messages)
            assert own in found
            assert other not in found
    assert (home / "agents/main/sessions").is_dir()
    assert (home / "agents/work/sessions").is_dir()
