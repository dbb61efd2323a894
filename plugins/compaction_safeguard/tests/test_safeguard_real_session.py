"""A recorded coding session, compacted again and again with models that do not do as they are told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermitcrab import Host
from hermitcrab.compaction import HEADINGS

SESSION = Path(__file__).parents[4] / "shared/data/coding-session-v1.jsonl"
#: Enough for a good ten compactions.
MESSAGES = 160
MODELS = {
    "good": "## Decisions\n- The work goes on.\n" + "\n- more\n".join(HEADINGS[1:]),
    "ignores the format": "Sure! Here is what we did.",
    "drops identifiers": "\n".join(HEADINGS),
    "invents": "## Decisions\n- x\n## Exact identifiers\n- /opt/lie/a.txt",
}


def recorded() -> Iterator[Any]:
    with SESSION.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry.get("type") == "message":
                yield entry["message"]


@pytest.mark.skipif(not SESSION.exists(), reason="the recorded session is not on this machine")
@pytest.mark.parametrize("name", MODELS)
async def test_a_long_session_never_gets_stuck_and_keeps_its_identifiers(
    tmp_path: Path, scripted: Any, name: str
) -> None:
    """P14, C52: every compaction ends in a summary that holds all that it must."""
    config = {"agents": {"defaults": {"contextTokens": 8_000}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    model = scripted(MODELS[name])
    outcomes: list[Any] = []
    async with Host.open(home=tmp_path, model=model, environ={}) as host:
        session = await host.session("agent:main:main")
        for number, message in enumerate(recorded()):
            if number == MESSAGES:
                break
            if message["role"] == "user":
                context = await session.assemble()
                outcomes += context.compactions
                assert context.tokens <= 8_000
            await session.append(message)
        outcomes += (await session.assemble()).compactions
    assert len(outcomes) > 2
    for outcome in outcomes:
        assert outcome.status == "compacted"
        assert outcome.identifiers_kept == outcome.identifiers_required
        lines = [line.strip() for line in outcome.summary.splitlines()]
        assert [line for line in lines if line in HEADINGS] == list(HEADINGS)
        assert "/opt/lie/a.txt" not in outcome.summary
