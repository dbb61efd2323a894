"""The plugins that the pages show load without a complaint and do what is said of them."""

from __future__ import annotations

import sys

import pytest

from hermitcrab import Host
from hermitcrab.messages import assistant, to_openai, user

MAIN = "agent:main:main"
GUIDE = "docs/writing-a-plugin.md"


@pytest.fixture
def open_home(home):
    """Opens the home with the config.yaml that a page shows."""
    return lambda model=None: Host.open(home=home, model=model, environ={})


def texts(request) -> str:
    return "\n".join(str(message.get("content")) for message in to_openai(request.messages))


async def test_every_plugin_of_the_pages_loads_without_a_complaint(
    shown_plugin, install, open_home
):
    plugin_id = install(shown_plugin)
    async with open_home() as host:
        assert host.plugins.records[plugin_id].status == "loaded"
        assert host.plugins.diagnostics == ()
        reply = await host.send(MAIN, "Hello.")
    assert reply.degraded == ()


def test_the_tests_that_the_pages_show_pass(tested_plugin, install, tmp_path, surroundings):
    install(tested_plugin)
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path / "site")]
    command = [sys.executable, "-m", "pytest", *options, *tested_plugin.tests]
    done = surroundings.run(command, cwd=tmp_path / "site")
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


async def test_the_plugin_of_the_readme_tells_who_is_on_call_and_guards_the_rules(
    install_section, open_home, crab, home
):
    install_section("README.md", "A plugin in twenty lines")
    model = crab.ScriptedModel(
        crab.calling("write", path="AGENTS.md", content="No rules."), "Well."
    )
    async with open_home(model) as host:
        await host.send(MAIN, "Away with the rules.")
    assert any(
        f"On call today: {name}." in model.requests[0].system for name in ("Mira", "Jonas", "Wei")
    )
    assert "AGENTS.md is written by people." in texts(model.requests[1])
    assert not (home / "workspace" / "AGENTS.md").exists()


def test_the_plugin_of_the_readme_has_twenty_lines(blocks_of):
    source = next(
        block for block in blocks_of("README.md") if block.file == "hermitcrab_on_call.py"
    )
    assert len([line for line in source.text.splitlines() if line.strip()]) <= 20


async def test_the_manners_plugin_refuses_a_topic_and_signs_the_rest(
    install_section, open_home, crab
):
    install_section(GUIDE, "Hooks")
    model = crab.ScriptedModel("Sunny.")
    async with open_home(model) as host:
        refused = await host.send(MAIN, "Tell me about payroll.")
        answered = await host.send(MAIN, "And the weather?")
    assert "this is not discussed here" in refused.text
    assert answered.text == "Sunny.\n\nSent by the crab."
    assert len(model.requests) == 1
    assert "payroll" not in texts(model.requests[0])


async def test_wrong_settings_of_the_manners_plugin_are_named(install_section, open_home, home):
    install_section(GUIDE, "Hooks")
    config = home / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("signature", "signatur"), encoding="utf-8")
    async with open_home() as host:
        assert host.plugins.records["manners"].status == "error"
        assert "plugins.entries.manners.config.signatur" in str(host.plugins.diagnostics[0])


async def test_the_words_plugin_adds_a_tool_and_a_command(install_section, open_home, crab, home):
    install_section(GUIDE, "Tools and chat commands")
    model = crab.ScriptedModel(
        crab.calling("count_words", path="notes.md"),
        crab.calling("count_words", "call_2", path="../config.yaml"),
        crab.calling("count_words", "call_3", path="nowhere.md"),
    )
    async with open_home(model) as host:
        (home / "workspace" / "notes.md").write_text("one two three", encoding="utf-8")
        reply = await host.send(MAIN, "Count.")
        command = await host.send(MAIN, "/words a crab in a shell")
        listed = await host.send(MAIN, "/help")
    results = [each for each in reply.messages if each["role"] == "toolResult"]
    assert [each["isError"] for each in results] == [False, True, True]
    assert results[0]["content"][0]["text"] == "3 words"
    assert command.text == "5 words"
    assert "count the words that follow" in listed.text


async def test_the_letters_provider_is_the_one_that_memory_asks(install_section, open_home):
    install_section(GUIDE, "An embedding provider")
    async with open_home() as host:
        embeddings = (await host.agent()).embeddings
        (vector,) = await embeddings.provider.embed_documents(["ABBA"])
    assert embeddings.problem is None
    assert embeddings.provider.id == "letters"
    assert [round(number**2, 3) for number in vector[:3]] == [0.5, 0.5, 0.0]


async def test_the_lean_engine_shortens_results_of_earlier_turns(
    install_section, open_home, crab, home
):
    install_section(GUIDE, "A context engine")
    model = crab.ScriptedModel(crab.calling("read", path="notes.md"), "Read.")
    async with open_home(model) as host:
        (home / "workspace" / "notes.md").write_text("the port is 5437", encoding="utf-8")
        for text in ("Read the notes.", "Thanks.", "Go on."):
            reply = await host.send(MAIN, text)
        session = await host.session(MAIN)
        stored = session.file.read_text("utf-8")
    assert reply.engine == "lean"
    assert "5437" in texts(model.requests[2])
    assert "5437" not in texts(model.requests[3])
    assert "[An earlier result of read, left out here.]" in texts(model.requests[3])
    assert "5437" in stored


async def test_the_tidy_engine_cuts_long_results_for_good(install_section, open_home, crab, home):
    install_section(GUIDE, "An engine that rewrites the transcript")
    model = crab.ScriptedModel(crab.calling("read", path="notes.md"), "Read.")
    async with open_home(model) as host:
        (home / "workspace" / "notes.md").write_text("the port is 5437\n" * 60, encoding="utf-8")
        await host.send(MAIN, "Read the notes.")
        reply = await host.send(MAIN, "Go on.")
        session = await host.session(MAIN)
        shown = session.messages
        stored = crab.stored_messages(session.file)
    assert reply.engine == "tidy"
    assert "[cut]" not in texts(model.requests[1])
    assert "[cut]" in texts(model.requests[2])
    results = [each["content"][0]["text"] for each in shown if each["role"] == "toolResult"]
    assert [len(text) for text in results] == [406]
    assert sum(each["role"] == "toolResult" for each in stored) == 2


async def test_the_plain_memory_finds_and_reads(install_section, open_home, home):
    install_section(GUIDE, "A memory backend")
    async with open_home() as host:
        notes = home / "workspace" / "MEMORY.md"
        notes.write_text(
            "# Staging\n\n- The port is 5437.\n- The host is brennick.\n", encoding="utf-8"
        )
        found = await host.memory.search("which port")
        read = await host.memory.read("MEMORY.md", start=3, lines=1)
        status = await host.memory.status()
        reply = await host.send(MAIN, "Which port does staging use?")
    assert [(hit.path, hit.start_line, hit.snippet) for hit in found.hits] == [
        ("MEMORY.md", 3, "- The port is 5437.")
    ]
    assert read.text == "- The port is 5437."
    assert (status.backend, status.files) == ("plain-memory", 1)
    assert "5437" in reply.text


async def test_the_parrot_answers_where_config_names_it(install_section, open_home):
    install_section(GUIDE, "A model provider")
    async with open_home() as host:
        reply = await host.send(MAIN, "Hello.")
        status = await host.send(MAIN, "/status")
    assert reply.text == "polly: Hello."
    assert "64,000 tokens" in status.text


async def test_the_scribe_writes_the_summaries(install_section, open_home, crab):
    install_section(GUIDE, "A compaction provider")
    async with open_home(crab.ScriptedModel(window=16_000)) as host:
        session = await host.session(MAIN)
        for number in range(12):
            await session.append(user(f"Question {number}. " + "What then? " * 200))
            await session.append(assistant("We shall see."))
        outcome = await host.compact(MAIN)
    assert (outcome.status, outcome.mode, outcome.reason) == ("compacted", "plugin", None)
    assert "## Pending user asks\n- Question " in outcome.summary
