"""``hermitcrab status`` on tables of sessions that had to be made again."""

from __future__ import annotations

from typing import Any


def test_a_table_that_was_made_again_is_told_with_the_name_of_what_was_kept(cli: Any) -> None:
    """#77783: sessions vanished from a damaged index without a word."""
    cli("run", "-m", "hello")
    assert cli.json("status")["sessionNotes"] == []
    [before] = cli.json("sessions", "list")
    [path] = cli.home.glob("agents/*/sessions/sessions.sqlite")
    for file in path.parent.glob("sessions.sqlite*"):
        file.unlink()
    path.write_bytes(b"no database at all " * 500)

    report = cli.json("status")
    [aside] = path.parent.glob("sessions.sqlite.corrupt-*Z")
    [note] = report["sessionNotes"]
    assert report["sessions"] == 1
    assert aside.name in note
    assert aside.name in cli("status").stderr
    [after] = cli.json("sessions", "list")
    assert {**after, "updatedAt": 0} == {**before, "updatedAt": 0}
