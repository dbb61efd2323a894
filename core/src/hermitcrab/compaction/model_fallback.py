"""The session's own model writes the summary where the one that config names for summaries fails (P25)."""

from __future__ import annotations

import logging

from attrs import evolve

from hermitcrab.compaction.asking import SummaryTimeoutError
from hermitcrab.compaction.composing import SummaryTask
from hermitcrab.compaction.summarise import Summariser, SummaryText
from hermitcrab.errors import CompactionError, ModelError

logger = logging.getLogger("hermitcrab.compaction")


class SummariesWithFallback:
    """Asks the first model, and the second one where the first one's provider fails.

    An answer that is no good is no failure of a provider: it is judged where all answers are. Cancelling ends both.
    """

    def __init__(self, first: Summariser, second: Summariser) -> None:
        self._first = first
        self._second = second

    async def summarise(self, task: SummaryTask) -> SummaryText:
        """Summarise; the result says why it was not the first model.

        :raises CompactionError: if neither gives a summary.
        """
        part: SummaryText | None = None
        try:
            part = await self._first.summarise(task)
            failure: BaseException | None = part.failure
        except CompactionError as error:
            failure = error.__cause__
            if not _is_of_provider(failure):
                raise
        if part is not None and not _is_of_provider(failure):
            return part
        remark = f"the summary model {self._first.model_id} is not used: {failure}"
        logger.warning("%s", remark)
        try:
            return evolve(await self._second.summarise(task), remark=remark)
        except CompactionError as error:
            if part is not None:
                return part
            raise CompactionError(
                f"{remark}; {error.message}", where=error.where, hint=error.hint
            ) from error


def _is_of_provider(failure: BaseException | None) -> bool:
    """Whether a failure lies with the model's provider, and not with what the model has written."""
    if isinstance(failure, ModelError | SummaryTimeoutError):
        return True
    return isinstance(failure, CompactionError) and failure.__cause__ is not None
