"""Replaying a transcript with one model in one window, and what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import asdict, evolve, field, frozen

from hermitcrab import Host, hookimpl
from hermitcrab.agent.assembled import AssembledContext
from hermitcrab.agent.replay import ReplayOptions, replay, replay_config
from hermitcrab.config import Config
from hermitcrab.config.names import camel_case
from hermitcrab.models import ChatModel
from hermitcrab.models.resolve import build_model
from hermitcrab.sessions.reading import read_transcript

from .checks import CompactionCheck, check_compactions, illegal_roles, messages_of
from .models import BUILT_IN, CountingModel

#: How long a model that never answers is waited for, in seconds; everything else answers at once or is a server.
_HANG_TIMEOUT_S = 0.2


@frozen(kw_only=True)
class Score:
    """What came of one replay.

    ``identifier_survival`` is the share of the identifiers required in summaries that stand in them, the worst
    compaction's; ``identifiers_findable`` the share of all that were summarised, in the text or beside it. ``calls``
    are those for summaries and flushes. ``tokens_saved`` is the sum over all compactions. ``idempotent`` tells that a
    compaction right behind the last one changes nothing. ``mode`` says how often summaries came from where.
    """

    window: int
    model: str
    compactions: int
    identifier_survival: float
    identifiers_required: int
    identifiers_findable: float
    orphan_results: int
    missing_results: int
    illegal_roles: int
    over_budget: int
    tail_changed: int
    summary_characters: int
    tokens_saved: int
    flushes: int
    calls: int
    messages_lost: int
    idempotent: bool
    modes: dict[str, int]
    seconds: float

    def record(self) -> dict[str, Any]:
        """The score as JSON data."""
        return {camel_case(name): value for name, value in asdict(self).items()}

    @property
    def flawless(self) -> bool:
        """Whether nothing was lost, broken or too large."""
        faults = (
            self.orphan_results,
            self.missing_results,
            self.illegal_roles,
            self.over_budget,
            self.tail_changed,
            self.messages_lost,
        )
        return self.identifier_survival == 1.0 and self.idempotent and not any(faults)


class _Providing:
    """A plugin that offers the model under test as ``bench/…``."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @hookimpl
    def register_model_providers(self, registry: Any) -> None:
        registry.register("bench", lambda **_: self._model)


@frozen
class _Requests:
    """Counts what is wrong with what the model was sent."""

    counts: dict[str, int] = field(factory=lambda: {"roles": 0, "over": 0})

    def see(self, context: AssembledContext) -> None:
        self.counts["roles"] += illegal_roles(context.messages)
        self.counts["over"] += context.request_tokens > context.window


async def score(
    session: Path, *, window: int, model: str, config: Config, until: int | None = None
) -> Score:
    """Replay ``session`` in a window of that many tokens, with a built-in model or one that ``config`` knows."""
    counted = CountingModel(_model(model, config))
    settings = _adjusted(config, model)
    options = ReplayOptions(source=session, context_window=window, model="bench/model", until=until)
    plugins = [("bench-model", _Providing(counted))]
    requests = _Requests()
    with TemporaryDirectory(prefix="hermitcrab-bench-") as folder:
        home = Path(folder)
        started = time.perf_counter()
        report = await replay(
            options, home=home, config=settings, plugins=plugins, on_request=requests.see
        )
        seconds = time.perf_counter() - started
        calls = counted.calls
        written = read_transcript(Path(report["sessionFile"]))
        source = messages_of(read_transcript(session).branch())
        checks = list(check_compactions(written.branch(), source))
        kept = messages_of(written.branch())
        whole = until is not None or len(kept) >= len(source)
        idempotent = await _is_idempotent(report, home, replay_config(settings, options), plugins)
    return Score(
        window=window,
        model=model,
        compactions=len(checks),
        identifier_survival=min(map(_survival, checks), default=1.0),
        identifiers_required=sum(check.required for check in checks),
        identifiers_findable=_share(checks),
        orphan_results=report["pairing"]["orphanResults"],
        missing_results=report["pairing"]["missingResults"],
        illegal_roles=requests.counts["roles"],
        over_budget=requests.counts["over"],
        tail_changed=sum(check.tail_changed for check in checks),
        summary_characters=max((check.characters for check in checks), default=0),
        tokens_saved=sum(one["tokensBefore"] - one["tokensAfter"] for one in report["compactions"]),
        flushes=len(report["flushes"]),
        calls=calls,
        messages_lost=0 if whole else len(source) - len(kept),
        idempotent=idempotent,
        modes=_modes(report["compactions"]),
        seconds=round(seconds, 3),
    )


def _model(name: str, config: Config) -> ChatModel:
    if name in BUILT_IN:
        return BUILT_IN[name]()
    return build_model(name, config.models.providers)


def _adjusted(config: Config, model: str) -> Config:
    """The configuration with little patience for a model that is known never to answer."""
    if model != "hangs":
        return config
    defaults = config.agents.defaults
    compaction = evolve(defaults.compaction, timeout_seconds=_HANG_TIMEOUT_S)
    return evolve(
        config, agents=evolve(config.agents, defaults=evolve(defaults, compaction=compaction))
    )


async def _is_idempotent(
    report: dict[str, Any], home: Path, config: Config, plugins: Sequence[tuple[str, Any]]
) -> bool:
    """Whether compacting twice by hand leaves one compaction more at most."""
    async with Host.open(
        home=home, config=config, plugins=plugins, model=BUILT_IN["offline"]()
    ) as host:
        await host.compact(report["sessionKey"])
        session = await host.session(report["sessionKey"])
        before = session.messages
        again = await host.compact(report["sessionKey"])
        return not again.compacted and session.messages == before


def _survival(check: CompactionCheck) -> float:
    return min(1.0, check.standing / check.required) if check.required else 1.0


def _share(checks: Sequence[CompactionCheck]) -> float:
    known = sum(check.known for check in checks)
    return round(sum(check.findable for check in checks) / known, 4) if known else 1.0


def _modes(compactions: Sequence[dict[str, Any]]) -> dict[str, int]:
    modes = [str(one["mode"]) for one in compactions]
    return {mode: modes.count(mode) for mode in sorted(set(modes))}
