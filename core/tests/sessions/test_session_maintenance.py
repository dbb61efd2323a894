"""What of old sessions is due to go (sessions 2.8): decisions alone, no file is touched."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.config import config_from
from hermitcrab.errors import ConfigError
from hermitcrab.sessions.entry import SessionEntry
from hermitcrab.sessions.maintenance.folder import Snapshot, StoredFile
from hermitcrab.sessions.maintenance.maintenance import plan_maintenance
from hermitcrab.sessions.maintenance.plan import FileRemoval, Limits, Plan, SessionRemoval
from hermitcrab.sessions.maintenance.protection import Protection

DAY = 86_400_000
NOW = 1_000 * DAY
KEY = "agent:main:telegram:direct:1"


def limits(**maintenance: Any) -> Limits:
    return Limits.of(config_from({"session": {"maintenance": maintenance}}).session.maintenance)


def entry(
    key: str = KEY, session_id: str = "s1", *, days: float = 0, **fields: Any
) -> SessionEntry:
    """A session that was last used so many days ago."""
    fields.setdefault("updated_at", int(NOW - days * DAY))
    fields.setdefault("session_started_at", fields["updated_at"])
    return SessionEntry(key=key, session_id=session_id, **fields)


def file(name: str, *, days: float = 0, size: int = 1_000, **facts: Any) -> StoredFile:
    return StoredFile(name=name, bytes=size, modified_at=int(NOW - days * DAY), **facts)


def plan(
    *things: SessionEntry | StoredFile,
    protection: Protection | None = None,
    is_automatic: bool = False,
    **maintenance: Any,
) -> Plan:
    return plan_maintenance(
        Snapshot(
            entries=tuple(each for each in things if isinstance(each, SessionEntry)),
            files=tuple(each for each in things if isinstance(each, StoredFile)),
        ),
        limits(**maintenance),
        protection or Protection(),
        now=NOW,
        is_automatic=is_automatic,
    )


def gone(decided: Plan) -> list[str]:
    """The keys of the sessions that go."""
    return [each.entry.key for each in decided.removed_sessions]


def files_gone(decided: Plan) -> list[str]:
    """The files that go at once."""
    single = [each.file.name for each in decided.removals if isinstance(each, FileRemoval)]
    return [each.name for one in decided.removed_sessions for each in one.deleted] + single


class TestAge:
    def test_a_session_that_was_not_used_for_long_goes(self) -> None:
        decided = plan(entry(days=31), file("s1.jsonl", days=31))
        [removal] = decided.removed_sessions
        assert removal.rule == "age"
        assert removal.why == "not used for more than 30d"
        assert [each.name for each in removal.archived] == ["s1.jsonl"]
        assert removal.deleted == ()

    def test_exactly_at_the_limit_it_stays(self) -> None:
        assert gone(plan(entry(days=30))) == []

    def test_what_a_turn_writes_now_counts_before_its_end_does(self) -> None:
        assert gone(plan(entry(days=31), file("s1.jsonl", days=0))) == []

    def test_an_entry_without_a_time_is_kept_by_age_and_goes_first_by_number(self) -> None:
        unknown = entry("agent:main:telegram:direct:2", "s2", updated_at=0)
        assert gone(plan(unknown)) == []
        assert gone(plan(entry(days=9), unknown, maxEntries=1)) == [unknown.key]


class TestNumber:
    def test_the_newest_stay(self) -> None:
        sessions = [entry(f"agent:main:telegram:direct:{n}", f"s{n}", days=n) for n in range(5)]
        decided = plan(*sessions, maxEntries=3)
        assert gone(decided) == [sessions[4].key, sessions[3].key]
        assert {each.rule for each in decided.removals} == {"cap"}

    def test_protected_sessions_count_and_stay(self) -> None:
        groups = [entry(f"agent:main:telegram:group:{n}", f"g{n}", days=9) for n in range(3)]
        decided = plan(*groups, entry(days=1), maxEntries=2)
        assert gone(decided) == [KEY]
        assert decided.protected == 3

    @pytest.mark.parametrize(("most", "reached_at"), [(10, 11), (49, 50), (50, 75), (500, 550)])
    def test_by_itself_the_host_caps_in_batches(self, most: int, reached_at: int) -> None:
        def decide(count: int, **how: Any) -> int:
            sessions = [entry(f"agent:main:x:direct:{n}", f"s{n}", days=1) for n in range(count)]
            return len(gone(plan(*sessions, maxEntries=most, **how)))

        assert decide(reached_at - 1, is_automatic=True) == 0
        assert decide(reached_at, is_automatic=True) == reached_at - most
        assert decide(most + 1) == 1


class TestProtection:
    """#107712: sessions and files disappeared without any maintenance config."""

    @pytest.mark.parametrize(
        "key",
        [
            "agent:main:main",
            "agent:main:telegram:group:1",
            "agent:main:slack:channel:c1",
            "agent:main:telegram:direct:1:thread:7",
            "agent:main:telegram:group:1:topic:7",
            "global",
        ],
    )
    def test_107712_conversations_of_people_stay_whatever_their_age(self, key: str) -> None:
        assert gone(plan(entry(key, days=400), maxDiskBytes=1, maxEntries=1)) == []

    def test_the_main_conversation_goes_by_its_configured_name(self) -> None:
        house = entry("agent:main:house", days=400)
        assert gone(plan(house)) == [house.key]
        assert gone(plan(house, protection=Protection(main_key="House"))) == []

    @pytest.mark.parametrize(
        "fields",
        [{"chat_type": "group"}, {"pinned_at": 1}, {"archived_at": 1}, {"chat_type": "thread"}],
    )
    def test_what_its_entry_says_protects_it(self, fields: dict[str, Any]) -> None:
        assert gone(plan(entry("agent:main:webchat", days=400, **fields))) == []

    def test_what_is_in_use_stays(self) -> None:
        assert gone(plan(entry(days=400), protection=Protection(preserve={KEY}))) == []

    @pytest.mark.parametrize(
        "key",
        [
            "agent:main:subagent:1",
            "agent:main:cron:daily:run:1",
            "agent:main:hook:mail",
            "agent:main:node:1",
            "agent:main:acp:1",
            "agent:main:heartbeat",
            "agent:main:telegram:group:1:heartbeat",
            "agent:main:telegram:group:1:subagent:2",
        ],
    )
    def test_7331_sessions_of_programs_are_never_protected(self, key: str) -> None:
        """#7331: finished sub-agent sessions stayed listed as active."""
        finished = entry(key, days=31, status="running", archived_at=1, chat_type="group")
        assert gone(plan(finished)) == [key]

    def test_a_session_that_runs_stays_however_many_there_are(self) -> None:
        running = entry("agent:main:subagent:1", "a", days=0.5, status="running")
        crashed = entry("agent:main:subagent:2", "b", days=2, status="running")
        assert gone(plan(running, crashed, entry(), maxEntries=1)) == [crashed.key, KEY]


class TestArchives:
    RESET = "old.jsonl.reset.{}T04-00-00.000Z"
    DELETED = "old.jsonl.deleted.{}T04-00-00.000Z"
    # NOW is 1972-09-27.

    def test_resets_are_kept_for_good_unless_config_says_how_long(self) -> None:
        reset = file(self.RESET.format("1971-01-01"), days=600)
        earlier = file("s0.jsonl", days=600)
        session = entry(previous_session_ids=("s0",), session_started_at=NOW - 500 * DAY)
        things = (session, file("s1.jsonl"), reset, earlier)
        for off in (None, False):
            assert files_gone(plan(*things, resetArchiveRetention=off)) == []
        assert files_gone(plan(*things, resetArchiveRetention="90d")) == [reset.name, earlier.name]

    def test_the_time_of_an_earlier_transcript_runs_from_the_reset(self) -> None:
        session = entry(previous_session_ids=("s0",), session_started_at=NOW - 2 * DAY)
        decided = plan(
            session, file("s1.jsonl"), file("s0.jsonl", days=50), resetArchiveRetention="7d"
        )
        assert files_gone(decided) == []

    def test_earlier_transcripts_of_a_pinned_session_stay(self) -> None:
        session = entry(previous_session_ids=("s0",), pinned_at=1, days=100)
        decided = plan(
            session, file("s1.jsonl"), file("s0.jsonl", days=100), resetArchiveRetention="7d"
        )
        assert files_gone(decided) == []

    def test_deleted_transcripts_go_after_a_while_with_their_blobs(self) -> None:
        fresh = file("new.jsonl.deleted.1972-09-20T00-00-00.000Z", days=90)
        old = file(self.DELETED.format("1972-08-01"), days=1)
        blobs = file("old.blobs", days=90, is_folder=True)
        assert files_gone(plan(fresh, old, blobs)) == [old.name, blobs.name]

    def test_blobs_stay_as_long_as_an_archive_needs_them(self) -> None:
        archive = file("old.jsonl.deleted.1972-09-20T00-00-00.000Z")
        assert files_gone(plan(archive, file("old.blobs", days=90, is_folder=True))) == []


class TestLeftovers:
    """#44812: hundreds of archives, temporaries and backups piled up."""

    def test_44812_what_nobody_needs_any_more_goes(self) -> None:
        stale = [
            file("s1.jsonl.bak-20200101T000000.000000Z", days=31),
            file("s1.jsonl.bak.1972-01-01T00-00-00Z", days=31),
            file("sessions.sqlite.corrupt-2020-01-01T00-00-00.000000Z", days=31),
            file("s1.jsonl.mending", days=1),
            file("s1.jsonl.mending-backup", days=1),
            file("sessions.json.4711.tmp", days=1),
            file("s9.jsonl.lock", days=1),
            file("s9.blobs", days=2, is_folder=True),
        ]
        kept = [
            entry(),
            file("s1.jsonl", days=90),
            file("s1.jsonl.lock", days=90),
            file("s1.blobs", days=90, is_folder=True),
            file("s8.jsonl.lock"),
            file("s8.blobs", is_folder=True),
            file("s1.jsonl.bak-20200101T000001.000000Z", days=29),
            file("sessions.json.4712.tmp"),
        ]
        decided = plan(*kept, *stale)
        assert sorted(files_gone(decided)) == sorted(each.name for each in stale)

    def test_what_is_nobodys_business_stays(self) -> None:
        others = ["sessions.sqlite", "sessions.sqlite-wal", "sessions.json", "notes.txt"]
        foreign = file("attic", days=900, is_folder=True)
        decided = plan(*(file(name, days=900) for name in others), foreign, maxDiskBytes=1)
        assert decided.removals == ()
        assert decided.is_over_budget


class TestDisk:
    def test_archives_go_first_then_sessions_and_it_stops_at_the_high_water(self) -> None:
        things = [
            file("old.jsonl.reset.1972-09-01T00-00-00.000Z", days=26),
            entry("agent:main:x:direct:1", "s1", days=9),
            file("s1.jsonl", days=9),
            entry("agent:main:x:direct:2", "s2", days=8),
            file("s2.jsonl", days=8),
            entry("agent:main:x:direct:3", "s3", days=7),
            file("s3.jsonl", days=7),
        ]
        decided = plan(*things, maxDiskBytes=3_500, highWaterBytes=2_000)
        assert files_gone(decided) == ["s1.jsonl", "old.jsonl.reset.1972-09-01T00-00-00.000Z"]
        assert decided.bytes_after == 2_000
        assert {each.rule for each in decided.removals} == {"disk"}

    def test_below_the_limit_nothing_goes(self) -> None:
        assert plan(entry(), file("s1.jsonl"), maxDiskBytes=1_000).removals == ()

    def test_transcripts_that_no_entry_names_go_unless_they_are_new(self) -> None:
        decided = plan(file("a.jsonl", days=2), file("b.jsonl"), maxDiskBytes=1)
        assert files_gone(decided) == ["a.jsonl"]

    def test_what_was_deleted_in_the_same_run_goes_for_good_where_space_is_short(self) -> None:
        decided = plan(entry(days=31), file("s1.jsonl", days=31), maxDiskBytes=1)
        [removal] = decided.removed_sessions
        assert (removal.rule, removal.archived) == ("age", ())
        assert files_gone(decided) == ["s1.jsonl"]

    @pytest.mark.parametrize(
        ("high_water", "expected"), [(None, 800), (0, 800), (900, 900), ("1mb", 1_000)]
    )
    def test_the_high_water_is_four_fifths_and_never_above_the_limit(
        self, high_water: Any, expected: int
    ) -> None:
        assert limits(maxDiskBytes=1_000, highWaterBytes=high_water).high_water == expected

    def test_zero_is_off(self) -> None:
        assert limits(maxDiskBytes=0).max_bytes is None


class TestOwnership:
    def test_a_transcript_that_another_session_needs_stays(self) -> None:
        decided = plan(
            entry(days=31),
            entry("agent:main:main", "s2", previous_session_ids=("s1",)),
            file("s1.jsonl", days=31),
            file("s2.jsonl"),
        )
        [removal] = decided.removed_sessions
        assert (removal.entry.key, removal.archived) == (KEY, ())

    def test_all_transcripts_of_a_session_go_with_it_the_current_one_last(self) -> None:
        """Earlier ones name the key too: a rebuilt table would bring it back (#77783)."""
        session = entry(days=31, session_id="a2", previous_session_ids=("z1",))
        names = ["z1.jsonl", "a2.jsonl", "a2-topic-5.jsonl", "fork_9.jsonl"]
        parents = [None, None, None, "z1"]
        things = [
            file(name, days=31, parent=parent) for name, parent in zip(names, parents, strict=True)
        ]
        [removal] = plan(session, *things).removed_sessions
        assert [each.name for each in removal.archived] == [
            "a2-topic-5.jsonl",
            "fork_9.jsonl",
            "z1.jsonl",
            "a2.jsonl",
        ]

    def test_a_deletion_that_was_interrupted_comes_to_its_end(self) -> None:
        archive = file("s1.jsonl.deleted.1972-09-26T00-00-00.000Z")
        [removal] = plan(entry("agent:main:main"), archive).removals
        assert removal.rule == "unfinished"

    def test_an_entry_whose_transcript_is_missing_stays_for_its_owner_to_see(self) -> None:
        assert plan(entry("agent:main:main", days=400)).removals == ()


class TestSettings:
    @pytest.mark.parametrize(
        ("written", "milliseconds"),
        [
            ("30d", 30 * DAY),
            (30, 30 * DAY),
            ("36", 36 * DAY),
            ("1h30m", 5_400_000),
            (0.5, DAY // 2),
        ],
    )
    def test_a_bare_number_is_days(self, written: Any, milliseconds: int) -> None:
        assert limits(pruneAfter=written).prune_after == milliseconds

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("pruneAfter", "soon"),
            ("pruneAfter", 0),
            ("pruneAfter", False),
            ("pruneAfter", None),
            ("resetArchiveRetention", True),
            ("resetArchiveRetention", "30 fortnights"),
            ("maxEntries", 0),
            ("maxDiskBytes", -1),
            ("highWaterBytes", "much"),
            ("mode", "delete"),
        ],
    )
    def test_malformed_values_are_errors_with_their_path(self, key: str, value: Any) -> None:
        with pytest.raises(ConfigError, match=rf"session\.maintenance\.{key}"):
            limits(**{key: value})

    def test_the_reference_keys_are_told_from_ours(self) -> None:
        with pytest.raises(ConfigError, match=r"maintenance\.rotateBytes: unknown key"):
            limits(rotateBytes=1)


# -- laws --------------------------------------------------------------------------------------

KEYS = [
    "agent:main:main",
    "agent:main:telegram:group:1",
    "agent:main:telegram:direct:1",
    "agent:main:telegram:direct:2",
    "agent:main:subagent:1",
    "agent:main:cron:x:run:1",
    "agent:main:telegram:direct:3:thread:4",
]
IDS = ["a", "b", "c", "d", "e"]
AGES = st.sampled_from([0, 0.01, 0.5, 2, 29, 31, 100, 400])
NAMES = [
    *(f"{each}.jsonl" for each in IDS),
    *(f"{each}.jsonl.lock" for each in IDS),
    *(f"{each}.blobs" for each in IDS),
    "a-topic-1.jsonl",
    "f_1.jsonl",
    "a.jsonl.deleted.1972-01-01T00-00-00.000Z",
    "b.jsonl.reset.1972-01-01T00-00-00Z",
    "c.jsonl.deleted.1972-09-26T00-00-00.000Z",
    "d.jsonl.bak-1",
    "e.jsonl.mending",
    "sessions.sqlite",
]


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    entries = [
        entry(
            key,
            draw(st.sampled_from(IDS)),
            days=draw(AGES),
            pinned_at=draw(st.sampled_from([None, None, None, 1])),
            status=draw(st.sampled_from([None, "running"])),
            previous_session_ids=tuple(draw(st.lists(st.sampled_from(IDS), max_size=2))),
            session_started_at=int(NOW - draw(AGES) * DAY),
        )
        for key in draw(st.lists(st.sampled_from(KEYS), unique=True))
    ]
    files = [
        file(
            name,
            days=draw(AGES),
            size=draw(st.integers(0, 2_000)),
            parent=draw(st.sampled_from([None, *IDS])) if name.endswith(".jsonl") else None,
            is_folder=name.endswith(".blobs"),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    ]
    return Snapshot(entries=tuple(entries), files=tuple(files))


SETTINGS = st.fixed_dictionaries(
    {
        "maxEntries": st.integers(1, 6),
        "resetArchiveRetention": st.sampled_from([None, "7d", "90d"]),
        "maxDiskBytes": st.sampled_from([None, 1, 2_000, 6_000]),
        "highWaterBytes": st.sampled_from([None, 1, 1_500]),
    }
)
PRESERVED = st.lists(st.sampled_from(KEYS), max_size=1)


def decide(snapshot: Snapshot, maintenance: dict[str, Any], preserve: list[str]) -> Plan:
    protection = Protection(preserve=preserve)
    return plan_maintenance(snapshot, limits(**maintenance), protection, now=NOW)


def carried_out(snapshot: Snapshot, decided: Plan) -> Snapshot:
    """The folder after a plan."""
    entries = {each.key: each for each in snapshot.entries}
    files = {each.name: each for each in snapshot.files}
    for removal in decided.removals:
        if isinstance(removal, SessionRemoval):
            del entries[removal.entry.key]
            for one in (*removal.archived, *removal.deleted):
                del files[one.name]
                files.pop(f"{one.name}.lock", None)
            for one in removal.archived:
                name = f"{one.name}.deleted.1972-09-27T00-00-00.000Z"
                files[name] = evolve(one, name=name)
        else:
            del files[removal.file.name]
            if removal.file.parsed.kind == "transcript":
                files.pop(f"{removal.file.name}.lock", None)
                for key in entries.keys() & set(removal.keys):
                    ids = entries[key].previous_session_ids
                    left = tuple(each for each in ids if each != removal.file.parsed.stem)
                    entries[key] = evolve(entries[key], previous_session_ids=left)
    return Snapshot(entries=tuple(entries.values()), files=tuple(files.values()))


@settings(max_examples=300, deadline=None)
@given(snapshots(), SETTINGS, PRESERVED)
def test_what_is_protected_is_never_removed(
    snapshot: Snapshot, maintenance: dict[str, Any], preserve: list[str]
) -> None:
    files = {each.name: each.modified_at for each in snapshot.files}
    protection = Protection(preserve=preserve)
    standing = {each.name for each in snapshot.files}
    for removal in decide(snapshot, maintenance, preserve).removed_sessions:
        if removal.rule != "unfinished":
            one = removal.entry
            used = max(one.updated_at, files.get(f"{one.session_id}.jsonl", 0))
            assert protection.reason(one, last_used=used, now=NOW) is None
        else:
            assert f"{removal.entry.session_id}.jsonl" not in standing


@settings(max_examples=300, deadline=None)
@given(snapshots(), SETTINGS, PRESERVED)
def test_a_transcript_that_a_remaining_entry_names_is_never_removed(
    snapshot: Snapshot, maintenance: dict[str, Any], preserve: list[str]
) -> None:
    decided = decide(snapshot, maintenance, preserve)
    left = carried_out(snapshot, decided)
    names = {each.name for each in left.files}
    for one in left.entries:
        for name in (f"{one.session_id}.jsonl", f"{one.session_id}.blobs"):
            there = any(each.name == name for each in snapshot.files)
            if there and (name.endswith(".jsonl") or f"{one.session_id}.jsonl" in names):
                assert name in names


@settings(max_examples=300, deadline=None)
@given(snapshots(), SETTINGS, PRESERVED)
def test_after_a_plan_is_carried_out_nothing_is_left_to_do(
    snapshot: Snapshot, maintenance: dict[str, Any], preserve: list[str]
) -> None:
    left = carried_out(snapshot, decide(snapshot, maintenance, preserve))
    again = decide(left, maintenance, preserve)
    assert again.removals == ()


@settings(max_examples=300, deadline=None)
@given(snapshots(), SETTINGS, PRESERVED)
def test_a_plan_says_what_the_folder_takes_afterwards(
    snapshot: Snapshot, maintenance: dict[str, Any], preserve: list[str]
) -> None:
    decided = decide(snapshot, maintenance, preserve)
    left = carried_out(snapshot, decided)
    assert sum(each.bytes for each in left.files) == decided.bytes_after


@given(
    st.lists(st.tuples(st.integers(1, 900), st.integers(1, 1_000)), max_size=12),
    st.integers(1, 4_000),
    st.integers(1, 4_000),
)
def test_the_disk_budget_takes_the_oldest_and_stops_at_the_high_water(
    shapes: list[tuple[int, int]], most: int, high_water: int
) -> None:
    files = [
        file(f"s{n}.jsonl.reset.1972-01-01T00-00-00.{n:03}Z", days=days, size=size)
        for n, (days, size) in enumerate(shapes)
    ]
    decided = plan(*files, maxDiskBytes=most, highWaterBytes=high_water)
    removed = [each.file for each in decided.removals if isinstance(each, FileRemoval)]
    oldest_first = sorted(files, key=lambda one: (one.modified_at, one.name))
    assert removed == oldest_first[: len(removed)]
    total = sum(each.bytes for each in files)
    if total <= most:
        assert removed == []
    else:
        target = min(high_water, most)
        assert decided.bytes_after <= target
        assert decided.bytes_after + removed[-1].bytes > target
