"""Who writes the summaries of one session (context 5.3, 6.7; P25)."""

from __future__ import annotations

from attrs import frozen

from hermitcrab.agent.parts import SessionParts
from hermitcrab.compaction.model_fallback import SummariesWithFallback
from hermitcrab.compaction.providers import ProvidedSummaries
from hermitcrab.compaction.reading import MessageReader
from hermitcrab.compaction.summarise import Summariser, SummarySource
from hermitcrab.models.contract import ChatModel
from hermitcrab.models.offline.model import OfflineModel
from hermitcrab.sessions.effective_levels import summary_thinking
from hermitcrab.sessions.entry import SessionEntry


@frozen(kw_only=True)
class SummarySources:
    """``chosen`` as config says, with what stands in for it; ``by_rules`` needs no provider."""

    chosen: SummarySource
    by_rules: SummarySource


def summary_sources(
    parts: SessionParts,
    entry: SessionEntry,
    model: ChatModel,
    window: int,
    reader: MessageReader,
) -> SummarySources:
    """The provider that config names, else its model for summaries, else the session's own; the next stands in for one.

    :param entry: the session's, which may say how much its model thinks.
    :param model: the session's, whose context window is :param window: tokens.
    :param reader: shared, so that no message is read twice.
    """
    settings = parts.settings
    timeout_s = float(settings.compaction.timeout_seconds)

    def by(one: ChatModel, tokens: int) -> Summariser:
        known = parts.thinking_levels(one.id)
        thinking = summary_thinking(settings.compaction.thinking_level, entry, settings, known)
        return Summariser(
            one,
            parts.counter,
            window=tokens,
            timeout_s=timeout_s,
            thinking=thinking,
            reader=reader,
        )

    own = by(model, window)
    chosen: SummarySource = own
    named = parts.summary_model
    if named is not None and named.id != model.id:
        chosen = SummariesWithFallback(by(named, parts.summary_window or window), own)
    if parts.summary_provider is not None:
        chosen = ProvidedSummaries(parts.summary_provider, chosen, timeout_s=timeout_s)
    return SummarySources(chosen=chosen, by_rules=by(OfflineModel(), window))
