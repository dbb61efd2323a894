"""The writer that plugins get for one compaction: it drafts, and shows what would be stored (context 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from hermitcrab.compaction.contract import Draft, FinishedSummary, SummarySettings, SummaryWish
from hermitcrab.compaction.drafting import Drafter, SummaryJob
from hermitcrab.compaction.files import FileLists, file_lists
from hermitcrab.compaction.plan import latest_ask
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
        named = extract_identifiers(text)[:_MOST_CHECKED]
        return missing_identifiers(self._known, named)[:_MOST_INVENTED]

    @cached_property
    def _known(self) -> str:
        """All that a summariser may have its identifiers from."""
        messages = self._job.plan.messages
        return "\n".join(
            (
                *map(plain_text, messages),
                # A summariser that copies faithfully copies what was cut, and how it was escaped.
                *map(self._reader.text, messages),
                self._job.previous_summary or "",
                self._job.focus or "",
            )
        )

    def finish(self, draft: Draft) -> FinishedSummary:
        finished = self._drafter.finish(draft, self._job)
        self._finished[finished.text] = finished
        return finished

    def finished(self, text: str) -> FinishedSummary | None:
        """The summary with this very text, if it was made here."""
        return self._finished.get(text)
