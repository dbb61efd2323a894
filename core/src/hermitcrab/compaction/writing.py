"""The writer that plugins get for one compaction: it drafts, and shows what would be stored (context 5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from hermitcrab.compaction.contract import Draft, FinishedSummary, SummarySettings, SummaryWish
from hermitcrab.compaction.drafting import Drafter, SummaryJob
from hermitcrab.compaction.files import FileLists, file_lists
from hermitcrab.compaction.plan import latest_ask, unresolved_ask
from hermitcrab.compaction.reading import MessageReader
from hermitcrab.compaction.serialise import plain_text
from hermitcrab.compaction.structure import SummaryLimits, split_tail, with_headings
from hermitcrab.compaction.summarise import SummarySource
from hermitcrab.messages.identifiers import extract_identifiers, missing_identifiers
from hermitcrab.messages.tokens import TokenCounter
from hermitcrab.messages.types import Message

#: What stands for a history of which there is no summary.
NO_HISTORY = "No prior history."
#: Identifiers of one text that are checked, and invented ones that are named.
_MOST_CHECKED = 100
_MOST_INVENTED = 20
_PIECE_CHARACTERS = 500_000


class JobWriter:
    """The :class:`~hermitcrab.compaction.contract.SummaryWriter` of one compaction."""

    def __init__(
        self,
        job: SummaryJob,
        *,
        drafter: Drafter,
        source: SummarySource,
        settings: SummarySettings,
        counter: TokenCounter,
        reader: MessageReader,
    ) -> None:
        self.settings = settings
        self.limits = SummaryLimits(tokens=job.budget.summary)
        self.latest_ask = latest_ask(job.plan.summarised)
        self._job = job
        self._drafter = drafter
        self._source = source
        self._counter = counter
        self._reader = reader
        self._finished: dict[str, FinishedSummary] = {}

    @cached_property
    def unresolved_ask(self) -> str | None:
        ask = unresolved_ask(self._job.plan)
        return None if ask is None else self._drafter.clean(ask)

    @cached_property
    def files(self) -> FileLists:
        return file_lists(self._job.plan.messages, self._job.previous_details)

    def count(self, message: Message) -> int:
        return self._reader.tokens(message)

    def count_text(self, text: str) -> int:
        return self._counter.text(text)

    async def write(self, wish: SummaryWish) -> Draft:
        return await self._drafter.draft(self._source, wish, self._job.budget)

    def without_model(self) -> Draft:
        body, tail = split_tail(self._job.previous_summary or NO_HISTORY)
        return Draft(sections=with_headings(body), answer=body, tail=tail, mode="deterministic")

    def invented_identifiers(self, text: str) -> Sequence[str]:
        missing = extract_identifiers(text)[:_MOST_CHECKED]
        for known in self._known:
            missing = missing_identifiers(known, missing)
            if not missing:
                break
        return missing[:_MOST_INVENTED]

    @cached_property
    def _known(self) -> Sequence[str]:
        """All that a summariser may have its identifiers from, in pieces that are not too long to be searched."""
        messages = self._job.plan.messages
        texts = (
            self._job.previous_summary or "",
            self._job.focus or "",
            *map(plain_text, messages),
            # A summariser that copies faithfully copies what was cut, and how it was escaped.
            *map(self._reader.text, messages),
        )
        return joined_pieces(texts, _PIECE_CHARACTERS)

    def finish(self, draft: Draft) -> FinishedSummary:
        finished = self._drafter.finish(draft, self._job)
        self._finished[finished.text] = finished
        return finished

    def finished(self, text: str) -> FinishedSummary | None:
        """The summary with this very text, if it was made here."""
        return self._finished.get(text)


def joined_pieces(texts: Iterable[str], characters: int) -> list[str]:
    """The texts, many of them joined by newlines to one piece of about this many characters."""
    pieces: list[str] = []
    current: list[str] = []
    size = 0
    for text in texts:
        current.append(text)
        size += len(text) + 1
        if size >= characters:
            pieces.append("\n".join(current))
            current, size = [], 0
    return [*pieces, "\n".join(current)]
