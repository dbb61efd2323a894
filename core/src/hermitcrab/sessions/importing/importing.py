"""Importing conversations from transcripts, folders of them, and whole homes (sessions 2)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attrs import define, evolve, field, frozen

from hermitcrab.errors import SessionError
from hermitcrab.sessions.entries import SessionEntries
from hermitcrab.sessions.entry import SessionEntry, milliseconds
from hermitcrab.sessions.importing.copying import (
    bring_in,
    clear_workshop,
    other_session_id,
    relation_to,
)
from hermitcrab.sessions.importing.decisions import (
    Action,
    Decision,
    Relation,
    Standing,
    decide,
    decide_earlier,
)
from hermitcrab.sessions.importing.names import safe_session_id
from hermitcrab.sessions.importing.plan import plan_import
from hermitcrab.sessions.importing.sources import LeftOut, survey_sources
from hermitcrab.sessions.importing.values import ImportPlan, PlanOptions, WantedSession
from hermitcrab.sessions.keys import normalise_agent_id, to_store_key
from hermitcrab.sessions.repair.inventory import read_entries
from hermitcrab.sessions.repair.rebuilding import rebuild_entries

if TYPE_CHECKING:
    from hermitcrab.config import Config

logger = logging.getLogger("hermitcrab.sessions")

Phase = Literal["reading", "importing"]
#: Told what is being done, how many of how many are done, and what is next.
ImportProgress = Callable[[Phase, int, int, str], None]

_TABLE = "sessions.sqlite"


def _nothing(phase: Phase, done: int, total: int, label: str) -> None:
    return None


@frozen(kw_only=True)
class ImportedSession:
    """What became of one conversation.

    ``action`` is ``imported``, ``unchanged`` (it is here already), ``conflict`` (its key or its session id is here with
    other content, which was left alone) or ``failed``; ``reason`` says why. ``keys`` are the keys that name it here,
    with ``is_archived`` as an earlier session. ``messages`` and ``compactions`` count all branches.
    """

    source: Path
    action: Action
    keys: tuple[str, ...]
    session_id: str
    messages: int
    compactions: int
    is_archived: bool = False
    reason: str | None = None


@frozen(kw_only=True)
class ImportReport:
    """What an import did, or with ``dry_run`` would do.

    ``left_out`` are files and rows that are no conversations or could not be taken, ``notes`` what did not come along
    with a conversation, ``other_files`` the number of files that have nothing to do with any.
    """

    sessions: tuple[ImportedSession, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    other_files: int = 0
    dry_run: bool = False

    def count(self, action: Action) -> int:
        """How many conversations ended with ``action``."""
        return Counter(session.action for session in self.sessions)[action]

    @property
    def is_complete(self) -> bool:
        """Whether there was a conversation, and every one is here now."""
        return bool(self.sessions) and not (self.count("conflict") or self.count("failed"))


def import_sessions(
    source: Path | str,
    *,
    home: Path | str | None = None,
    config: Config | None = None,
    key: str | None = None,
    agent_id: str | None = None,
    dry_run: bool = False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_progress: ImportProgress = _nothing,
) -> ImportReport:
    """Import a transcript, a folder of transcripts, or a home with ``agents/*/sessions``. Blocking; never overwrites.

    The source is only read. Keys, session ids, entry ids, settings and times are kept; a second import changes nothing.
    Transcripts that no key is known for are found as ``agent:<id>:import:<session id>``.

    :param home: where to, by default ``$HERMITCRAB_HOME``, else ``~/.hermitcrab``.
    :param config: that of the home, by default read from it.
    :param key: the key for the one conversation that is imported. Where its session id is taken, it gets another one.
    :param agent_id: the agent that everything is given to; by default each conversation stays with its own.
    :param dry_run: only say what would be done; nothing is written.
    :raises SessionError: if the source cannot be read, lies within the home, or holds not just one conversation for
        ``key``.
    """
    from hermitcrab.config import default_agent_id, load_config, resolve_home

    target = resolve_home(home)
    config = load_config(home=target) if config is None else config
    sources_path = Path(source)
    _refuse_own(sources_path, target)
    options = PlanOptions(
        default_agent=default_agent_id(config),
        main_key=config.session.main_key,
        scope=config.session.scope,
        now=milliseconds(clock()),
        agent_id=None if agent_id is None else normalise_agent_id(agent_id),
        key=None if key is None else _stored_key(key, agent_id, config),
    )
    sources = survey_sources(
        sources_path, lambda done, total, label: on_progress("reading", done, total, label)
    )
    plan = plan_import(sources, options)
    importer = _Importer(
        agents=target / "agents",
        dry_run=dry_run,
        lock_timeout_ms=config.session.lock_timeout_ms,
        may_rename=key is not None,
    )
    try:
        sessions = importer.run(plan, on_progress)
    finally:
        importer.close()
    return ImportReport(
        sessions=tuple(sessions),
        left_out=plan.left_out,
        notes=(*plan.notes, *importer.notes),
        other_files=sources.other_files,
        dry_run=dry_run,
    )


def _stored_key(key: str, agent_id: str | None, config: Config) -> str:
    from hermitcrab.config import default_agent_id

    agent = default_agent_id(config) if agent_id is None else normalise_agent_id(agent_id)
    session = config.session
    return to_store_key(key, agent_id=agent, main_key=session.main_key, scope=session.scope)


def _refuse_own(source: Path, home: Path) -> None:
    agents = (home / "agents").resolve()
    if source.expanduser().resolve().is_relative_to(agents) or source.resolve() == home.resolve():
        raise SessionError(
            "these are the sessions of this home already",
            where=source,
            hint="Choose another home with --home or HERMITCRAB_HOME to copy them there.",
        )


@define(kw_only=True)
class _Importer:
    """Decides on each session by what is in the home now, and brings it in."""

    agents: Path
    dry_run: bool
    lock_timeout_ms: int
    may_rename: bool
    notes: list[str] = field(factory=list)
    _tables: dict[str, SessionEntries] = field(factory=dict)
    _standing: dict[str, Standing] = field(factory=dict)

    def run(self, plan: ImportPlan, on_progress: ImportProgress) -> list[ImportedSession]:
        """Earlier sessions of a key come before the present one, which names them."""
        present = [self._decided(each) for each in plan.wanted if each.owner is None]
        owners = {key: each for each in present for key in each.wanted.keys}
        earlier = [
            self._decided_earlier(each, owners.get(each.owner or ""))
            for each in plan.wanted
            if each.owner is not None
        ]
        decisions = [*earlier, *present]
        sessions = []
        for done, decision in enumerate(decisions):
            on_progress("importing", done, len(decisions), decision.wanted.keys[0])
            sessions.append(_session_of(self._carried_out(decision)))
            self.notes += decision.notes
        return sessions

    def close(self) -> None:
        """Close the tables, and leave nothing behind but sessions."""
        for agent_id, table in self._tables.items():
            table.close()
            if not self.dry_run:
                clear_workshop(self._folder(agent_id))

    def _decided(self, wanted: WantedSession) -> Decision:
        try:
            standing = self._standing_of(wanted.agent_id)
            relation = self._relation(wanted)
            if relation == "differs" and self.may_rename:
                wanted = _with_session_id(
                    wanted, safe_session_id(other_session_id(wanted.source, wanted.session_id))
                )
                relation = self._relation(wanted)
            return decide(wanted, standing, relation)
        except (SessionError, OSError) as error:
            return _failed(wanted, error)

    def _decided_earlier(self, wanted: WantedSession, owner: Decision | None) -> Decision:
        try:
            standing = self._standing_of(wanted.agent_id)
            return decide_earlier(wanted, owner, standing, self._relation(wanted))
        except (SessionError, OSError) as error:
            return _failed(wanted, error)

    def _carried_out(self, decision: Decision) -> Decision:
        if self.dry_run or decision.action != "imported":
            return decision
        agent_id = decision.wanted.agent_id
        try:
            bring_in(
                decision.task,
                self._folder(agent_id),
                self._table(agent_id),
                lock_timeout_ms=self.lock_timeout_ms,
            )
        except (SessionError, OSError) as error:
            return _failed(decision.wanted, error)
        return decision

    def _relation(self, wanted: WantedSession) -> Relation:
        target = self._folder(wanted.agent_id) / f"{wanted.session_id}.jsonl"
        return relation_to(wanted.source, target)

    def _folder(self, agent_id: str) -> Path:
        return self.agents / agent_id / "sessions"

    def _table(self, agent_id: str) -> SessionEntries:
        if agent_id not in self._tables:
            self._tables[agent_id] = SessionEntries(self._folder(agent_id) / _TABLE)
        return self._tables[agent_id]

    def _standing_of(self, agent_id: str) -> Standing:
        if agent_id not in self._standing:
            self._standing[agent_id] = Standing.of(self._entries_of(agent_id))
        return self._standing[agent_id]

    def _entries_of(self, agent_id: str) -> list[SessionEntry]:
        if not self.dry_run:
            return self._table(agent_id).list()
        folder = self._folder(agent_id)
        if (folder / _TABLE).exists():
            return read_entries(folder / _TABLE)
        rebuilt = rebuild_entries(folder, agent_id, f"{_TABLE} was missing")
        return [] if rebuilt is None else list(rebuilt.entries)


def _with_session_id(wanted: WantedSession, session_id: str) -> WantedSession:
    entries = tuple(evolve(entry, session_id=session_id) for entry in wanted.entries)
    return evolve(wanted, session_id=session_id, entries=entries, is_recorded=False)


def _failed(wanted: WantedSession, error: SessionError | OSError) -> Decision:
    reason = str(error)
    logger.warning("%s could not be imported: %s", wanted.source.path, reason)
    return Decision(action="failed", wanted=wanted, reason=reason)


def _session_of(decision: Decision) -> ImportedSession:
    wanted = decision.wanted
    return ImportedSession(
        source=wanted.source.path,
        action=decision.action,
        keys=wanted.keys,
        session_id=wanted.session_id,
        messages=wanted.source.facts.messages,
        compactions=wanted.source.facts.entry.compaction_count,
        is_archived=wanted.owner is not None,
        reason=decision.reason,
    )
