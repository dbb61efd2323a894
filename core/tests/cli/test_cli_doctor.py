"""``hermitcrab doctor``: what is wrong with a home, and what helps."""

from __future__ import annotations

import pytest


def test_doctor_points_to_what_mends_a_damaged_transcript(cli):
    cli("run", "-m", "hello")
    (file,) = (cli.home / "agents/main/sessions").glob("*.jsonl")
    file.write_bytes(file.read_bytes() + b"garbage\n")
    found = cli("doctor")
    assert "sessions verify" in found.stdout + found.stderr


_NOT_AUDITED = """
    agents: {defaults: {compaction: {mode: safeguard}}}
    plugins: {entries: {compaction-safeguard: {enabled: false}}}
"""


@pytest.mark.parametrize("command", ["doctor", "status"])
def test_summaries_that_are_not_audited_are_told(cli, command):
    cli.configure(_NOT_AUDITED)
    found = cli(command)
    assert "summaries are not audited" in found.stdout + found.stderr


@pytest.mark.parametrize(("command", "code"), [("doctor", 1), ("status", 0)])
def test_a_compaction_provider_that_is_not_there_is_told(cli, command, code):
    cli.configure("agents: {defaults: {compaction: {provider: nobody}}}")
    found = cli(command, code=code)
    assert 'provider is "nobody", which no plugin has registered' in found.stdout + found.stderr
