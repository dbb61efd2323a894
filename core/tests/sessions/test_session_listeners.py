"""Listeners of session events: in order, undisturbed by each other, and only of what is on disk."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.events import SessionChanged, SessionEvents, TranscriptUpdated, patch_of

ENTRY = SessionEntry(key="agent:main:main", session_id="s1", updated_at=1, session_started_at=1)
EVENT = SessionChanged(kind="created", session_key="agent:main:main", session_id="s1")


def test_listeners_are_called_in_the_order_of_registration():
    heard = []
    events = SessionEvents()
    for name in "abc":
        events.listen(lambda event, name=name: heard.append(name))
    events.emit(EVENT)
    assert heard == ["a", "b", "c"]


def test_a_failing_listener_is_named_in_the_log_and_harms_nobody(caplog):
    heard, reported = [], []

    def broken(event):
        raise ValueError("no")

    def ends_the_process(event):
        raise SystemExit(1)

    events = SessionEvents(
        lambda: [("crab", broken), ("snail", ends_the_process)],
        lambda plugin_id, error, seconds: reported.append((plugin_id, str(error))),
    )
    events.listen(broken)
    events.listen(heard.append)
    with caplog.at_level(logging.WARNING):
        events.emit(EVENT)
    assert heard == [EVENT]
    assert reported == [("crab", "no"), ("snail", "1")]
    assert [getattr(record, "plugin_id", None) for record in caplog.records] == [
        "crab",
        "snail",
        None,
    ]
    assert "ValueError: no" in caplog.text


def test_a_coroutine_cannot_listen_and_says_so(caplog):
    async def listener(event):
        raise AssertionError("never awaited")

    events = SessionEvents()
    events.listen(listener)
    events.emit(EVENT)
    assert "plain function" in caplog.text


def test_unsubscribing_is_idempotent_and_safe_inside_a_listener():
    heard = []
    events = SessionEvents()
    ends = {}

    def first(event):
        heard.append("first")
        ends["first"]()
        ends["second"]()

    ends["first"] = events.listen(first)
    ends["second"] = events.listen(lambda event: heard.append("second"))
    events.listen(lambda event: heard.append("third"))
    events.emit(EVENT)
    events.emit(EVENT)
    ends["first"]()
    assert heard == ["first", "third", "third"]


def test_one_function_may_listen_twice_and_end_once():
    heard = []
    events = SessionEvents()
    events.listen(heard.append)
    end = events.listen(heard.append)
    end()
    end()
    events.emit(EVENT)
    assert heard == [EVENT]


def test_a_listener_may_begin_another_one():
    heard = []
    events = SessionEvents()
    events.listen(lambda event: events.listen(heard.append))
    events.emit(EVENT)
    assert heard == []
    events.emit(EVENT)
    assert heard == [EVENT]


def test_bookkeeping_is_no_event_and_names_are_told_apart_from_other_choices():
    def after(**changes):
        return patch_of(ENTRY, SessionEntry(**{**_fields(), **changes}))

    assert after(message_count=7, status="done", updated_at=9) is None
    renamed = after(label="harbour")
    assert (renamed.kind, renamed.label, renamed.fields) == ("renamed", "harbour", ("label",))
    patched = after(send_policy="deny", display_name="H")
    assert (patched.kind, patched.fields) == ("patched", ("displayName", "sendPolicy"))


def _fields():
    return {"key": ENTRY.key, "session_id": "s1", "updated_at": 1, "session_started_at": 1}


async def test_an_append_is_told_once_it_is_on_disk(open_sessions):
    heard = []
    events = SessionEvents()
    log = await open_sessions(events=events).open("agent:main:main")

    def listener(event):
        if isinstance(event, TranscriptUpdated):
            stored = event.session_file.read_text(encoding="utf-8")
            heard.append((event.entry_type, event.message, event.entry_id in stored))
            assert log.items()[-1].entry_id == event.entry_id

    events.listen(listener)
    message = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    await log.append_messages([message])
    assert heard == [("message", message, True)]


async def test_a_refused_label_is_no_event(open_sessions):
    from hermitcrab.errors import SessionLabelTakenError

    heard = []
    events = SessionEvents()
    sessions = open_sessions(events=events)
    await sessions.open("agent:main:a")
    await sessions.open("agent:main:b")
    await sessions.patch("agent:main:a", {"label": "taken"})
    events.listen(lambda event: heard.append(getattr(event, "kind", "entry")))
    with pytest.raises(SessionLabelTakenError):
        await sessions.patch("agent:main:b", {"label": "taken"})
    assert "renamed" not in heard


def test_nobody_listening_costs_nothing():
    class Untouchable:
        def __iter__(self):
            raise AssertionError("nobody listens")

        def __len__(self):
            return 1

    log = SimpleNamespace(file=None, key="k", session_id="s")
    SessionEvents().emit_appended(log, Untouchable())
