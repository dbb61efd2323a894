"""Every tool call is in the log, also one that was refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

import hermitcrab_audit_log
from hermitcrab import Host
from hermitcrab.messages import assistant
from hermitcrab.models import ChatModel, ChatReply, ChatRequest

CONFIG = """
plugins:
  entries:
    audit-log:
      config:
        blockedTools: [edit]
"""


class Script(ChatModel):
    """Calls tools one after another, then stops."""

    id = "test/script"

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = list(calls)

    async def complete(self, request: ChatRequest) -> ChatReply:
        if not self._calls:
            return ChatReply(message=assistant("done"))
        name, arguments = self._calls.pop(0)
        message = assistant(
            "", tool_calls=[{"id": f"call_{name}", "name": name, "arguments": arguments}]
        )
        return ChatReply(message=message)


@pytest.fixture
def plugins() -> list[tuple[str, Any]]:
    """Handed over in code, unless it is installed and found by itself."""
    from importlib.metadata import entry_points

    found = {each.name for each in entry_points(group="hermitcrab.plugins")}
    return [] if "audit-log" in found else [("audit-log", hermitcrab_audit_log)]


async def test_calls_are_written_down_and_blocked_ones_do_not_run(
    tmp_path: Path, plugins: list[tuple[str, Any]]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    model = Script(
        ("write", {"path": "secret.txt", "content": "the password"}),
        ("edit", {"path": "secret.txt", "old": "the", "new": "a"}),
        ("read", {"path": "nowhere.txt"}),
    )
    async with Host.open(home=tmp_path, config=config, model=model, plugins=plugins) as host:
        reply = await host.send("agent:main:main", "Go.")
    assert reply.text == "done"
    log = tmp_path / "audit.jsonl"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    outcomes = {line["tool"]: line["outcome"] for line in lines}
    assert outcomes == {"write": "ok", "edit": "blocked", "read": "failed"}
    assert {line["session"] for line in lines} == {"agent:main:main"}
    assert "password" not in log.read_text(encoding="utf-8")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert (tmp_path / "workspace" / "secret.txt").read_text(encoding="utf-8") == "the password"
