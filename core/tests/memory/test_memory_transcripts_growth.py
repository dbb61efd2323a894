"""When a transcript that grows is indexed again (memory 3.9)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermitcrab.memory.transcripts import Growth, Thresholds, grown, is_due, measured

FEW = Thresholds(delta_bytes=1000, delta_messages=3)


def test_nothing_new_is_never_due():
    for thresholds in (FEW, Thresholds(delta_bytes=0, delta_messages=0)):
        assert not is_due(Growth(seen=500), thresholds)


def test_at_zero_every_change_counts():
    growth = grown(Growth(seen=10), 11)
    assert is_due(growth, Thresholds(delta_bytes=0))
    assert is_due(growth, Thresholds(delta_messages=0))
    assert not is_due(growth, Thresholds())


def test_either_threshold_is_enough():
    assert is_due(grown(Growth(), 1000), FEW)
    assert is_due(grown(Growth(), 10, messages=3), FEW)
    assert not is_due(grown(Growth(), 999, messages=2), FEW)


def test_a_compaction_does_not_wait_unless_it_is_told_to():
    growth = grown(Growth(), 10, messages=1, compacted=True)
    assert is_due(growth, FEW)
    assert not is_due(
        growth, Thresholds(delta_bytes=1000, delta_messages=3, after_compaction=False)
    )


def test_a_file_that_has_shrunk_is_new_as_a_whole():
    assert grown(Growth(seen=5000, bytes=10, messages=1), 1200).bytes == 1200


@given(st.lists(st.integers(0, 500), max_size=20))
def test_small_steps_add_up_to_the_whole(steps):
    growth, size = Growth(seen=100), 100
    for step in steps:
        size += step
        growth = grown(growth, size, messages=1)
    assert (growth.bytes, growth.seen, growth.messages) == (sum(steps), size, len(steps))


def test_only_what_is_new_is_counted_and_only_where_the_size_does_not_decide(tmp_path):
    file = tmp_path / "s.jsonl"
    file.write_bytes(b'{"type":"message"}\n' * 4)
    start = file.stat().st_size
    with file.open("ab") as stream:
        stream.write(b'{"type":"message"}\n{"type":"message"}\n{"type":')
    growth = measured(Growth(seen=start), file, file.stat().st_size, FEW)
    assert (growth.messages, growth.compacted) == (2, False)
    with file.open("ab") as stream:
        stream.write(b'"message"}\n')
    growth = measured(growth, file, file.stat().st_size, FEW)
    assert growth.messages == 3
    assert measured(Growth(), tmp_path / "gone.jsonl", 5000, FEW).bytes == 5000


def test_a_compaction_is_seen_and_a_word_about_one_is_not(tmp_path):
    file = tmp_path / "s.jsonl"
    file.write_bytes(b'{"type":"message","message":{"content":"the \\"compaction\\" was"}}\n')
    said = measured(Growth(), file, file.stat().st_size, FEW)
    assert not said.compacted
    with file.open("ab") as stream:
        stream.write(b'{"type":"compaction","id":"c"}\n')
    assert measured(said, file, file.stat().st_size, FEW).compacted
