"""``hermitcrab doctor``: what is wrong with a home, and what helps."""

from __future__ import annotations


def test_doctor_points_to_what_mends_a_damaged_transcript(cli):
    cli("run", "-m", "hello")
    (file,) = (cli.home / "agents/main/sessions").glob("*.jsonl")
    file.write_bytes(file.read_bytes() + b"garbage\n")
    found = cli("doctor")
    assert "sessions verify" in found.stdout + found.stderr
