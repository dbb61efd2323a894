"""What plugins that take part in compactions work with: providers of summaries, and the writer (context 5.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import field, frozen

from hermitcrab.compaction.files import FileLists
from hermitcrab.compaction.outcome import SummaryMode
from hermitcrab.compaction.structure import SummaryLimits
from hermitcrab.messages.types import Message


@frozen(kw_only=True)
class SummaryRequest:
    """What a compaction provider is asked for.

    ``instructions`` say which notes are wanted, as the built-in summariser's model would read them;
    ``custom_instructions`` are what the operator or the user wants the notes to dwell on, and are part of them.
    ``messages`` begin with the oldest. ``max_tokens`` is the most that the summary may take.
    """

    messages: Sequence[Message]
    instructions: str
    custom_instructions: str | None = None
    previous_summary: str | None = None
    max_tokens: int = 4_000


class CompactionProvider(Protocol):
    """Writes summaries in place of the host's model; ``register_compaction_providers`` takes one, or its factory.

    What it writes is checked, completed and cut as a model's summary is. Where it raises, takes too long or returns no
    text, the host's model writes the summary. Cancelling is task cancellation.
    """

    async def summarise(self, request: SummaryRequest, /) -> str: ...


class QualityGuardSettings(Protocol):
    """``agents.defaults.compaction.qualityGuard``."""

    @property
    def enabled(self) -> bool: ...
    @property
    def max_retries(self) -> int: ...


class SummarySettings(Protocol):
    """The part of ``agents.defaults.compaction`` that plugins which write summaries read."""

    @property
    def mode(self) -> str | None: ...
    @property
    def provider(self) -> str | None: ...
    @property
    def identifier_policy(self) -> str: ...
    @property
    def quality_guard(self) -> QualityGuardSettings: ...
    @property
    def recent_turns_preserve(self) -> int: ...
    @property
    def max_history_share(self) -> float: ...
    @property
    def post_compaction_sections(self) -> Sequence[str]: ...


@frozen(kw_only=True)
class SummaryWish:
    """What a summary is wanted of.

    ``messages`` are whole turns, ``turn_prefix`` is the beginning of a turn that is cut in two, which gets a section
    of its own. ``feedback`` says what was wrong with the last summary of the same. ``max_tokens`` is the most that the
    answer should take; the default is what may be stored.
    """

    messages: Sequence[Message]
    turn_prefix: Sequence[Message] = ()
    previous_summary: str | None = None
    focus: str | None = None
    feedback: Sequence[str] = ()
    max_tokens: int | None = None


@frozen(kw_only=True)
class Draft:
    """A summary before it is brought into its final form.

    ``answer`` is the text as it was written, ``sections`` is what stands in it under each of the five headings;
    ``tail`` follows them. ``details`` go to the entry, ``remarks`` to the outcome of the compaction.
    """

    sections: Mapping[str, str]
    mode: SummaryMode
    answer: str = ""
    tail: str = ""
    details: Mapping[str, Any] = field(factory=dict)
    remarks: tuple[str, ...] = ()


@frozen(kw_only=True)
class FinishedSummary:
    """A summary exactly as it is stored, with its size in tokens and the ``details`` of its entry.

    ``identifiers_missing`` are those required identifiers that do not stand in ``text``.
    """

    text: str
    mode: SummaryMode
    tokens: int
    identifiers_required: int
    identifiers_missing: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def identifiers_kept(self) -> int:
        return self.identifiers_required - len(self.identifiers_missing)


class SummaryWriter(Protocol):
    """Writes summaries for one compaction: ``event.writer`` of the hook ``session_before_compact``.

    A plugin drafts with :meth:`write`, looks at what :meth:`finish` makes of it, and answers with that very text:
    ``CompactionDecision(summary=finished.text)`` stores it as it is, with its details.
    """

    @property
    def settings(self) -> SummarySettings: ...

    @property
    def limits(self) -> SummaryLimits:
        """How large the stored text may be, in tokens and in characters."""

    @property
    def latest_ask(self) -> str | None:
        """The last request of the user in what is summarised."""

    @property
    def unresolved_ask(self) -> str | None:
        """That request if nothing answers it, neither there nor in what is kept; credentials are out."""

    @property
    def files(self) -> FileLists:
        """The files that were read and changed since the session began."""

    def count(self, message: Message) -> int:
        """Tokens of a message as the summariser reads it."""

    def count_text(self, text: str) -> int:
        """Tokens of a text."""

    async def write(self, wish: SummaryWish) -> Draft:
        """Have the provider or the model summarise.

        :raises CompactionError: if neither gives a summary.
        """

    def without_model(self) -> Draft:
        """What is there without a new summary: what the last one held."""

    def invented_identifiers(self, text: str) -> Sequence[str]:
        """Identifiers in ``text`` that stand nowhere in what is summarised; at most 20 of them."""

    def finish(self, draft: Draft) -> FinishedSummary:
        """The text as it would be stored: credentials out, identifiers and latest ask in, cut to the limits."""
