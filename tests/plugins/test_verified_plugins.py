"""``hermitcrab plugins verify`` over plugins that pip installed: a good one passes, a bad one is told apart."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("plugin", ["sliding-window", "notes-memory", "last-messages"])
def test_a_good_plugin_is_verified(environment, tmp_path, plugin):
    home = tmp_path / "home"
    done = environment.hermitcrab("plugins", "verify", plugin, "--json", home=home, plugins=plugin)
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert sum(each["outcome"] == "passed" for each in report["verdicts"]) > 20
