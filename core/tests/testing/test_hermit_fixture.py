"""The fixture ``hermit``: hosts in a home of their own, for tests of plugins."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta

import pytest

from hermitcrab import hookimpl
from hermitcrab.errors import ConfigError, ModelError
from hermitcrab.hooks import PromptBuild
from hermitcrab.messages import text_of
from hermitcrab.testing import calling, plugin_of


async def test_the_model_says_what_the_test_tells_it(hermit):
    host = await hermit.open("first", calling("read", path="nowhere.txt"), lambda request: "third")
    assert (await host.send("agent:main:main", "one")).text == "first"
    assert (await host.send("agent:main:main", "two")).text == "third"
    assert (await host.send("agent:main:main", "three")).text == "ok"
    assert text_of(hermit.model.requests[0].messages[-1]) == "one"
    assert [message["role"] for message in hermit.transcript()][:2] == ["user", "assistant"]


async def test_a_plugin_in_code_takes_part(hermit):
    @hookimpl
    def before_prompt_build(event):
        return PromptBuild(prepend_context="Today is a holiday.")

    plugins = [("holiday", plugin_of(before_prompt_build))]
    assert await hermit.say("hello", plugins=plugins) == ["ok"]
    assert "Today is a holiday." in text_of(hermit.model.requests[0].messages[-1])


async def test_a_session_goes_on_after_a_restart(hermit):
    await hermit.say("remember 5433")
    await hermit.say("and now?")
    said = [text_of(message) for message in hermit.model.requests[-1].messages]
    assert any("remember 5433" in text for text in said)


async def test_the_clock_moves_only_when_it_is_moved(hermit):
    host = await hermit.open()
    await host.send("agent:main:main", "hello")
    first = hermit.clock()
    assert hermit.clock.advance(hours=3) - first == timedelta(hours=3)
    await host.send("agent:main:main", "again")
    stamps = [message["timestamp"] for message in hermit.transcript() if message["role"] == "user"]
    assert stamps[1] - stamps[0] == 3 * 3_600_000


async def test_a_failure_of_the_model_and_a_wrong_config_are_raised(hermit):
    host = await hermit.open(ModelError("the model is away", where="scripted/model"))
    with pytest.raises(ModelError, match="away"):
        await host.send("agent:main:main", "hello")
    with pytest.raises(ConfigError, match="sesion"):
        await hermit.open(config={"sesion": {}})


def test_pytest_loads_nothing_of_hermitcrab_before_a_fixture_is_used(tmp_path):
    (tmp_path / "test_plain.py").write_text(
        "import json, sys\n"
        "def test_plain():\n"
        "    loaded = [n for n in sys.modules if n.split('.')[0] == 'hermitcrab']\n"
        "    print('LOADED', json.dumps(loaded))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "--rootdir", ".", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [each for each in done.stdout.splitlines() if "LOADED" in each]
    assert json.loads(line.split("LOADED ", 1)[1]) == []
    assert "hermitcrab" in done.stdout.split("plugins:", 1)[1].splitlines()[0]
