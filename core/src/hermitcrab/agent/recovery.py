"""Going on after a model call that failed because the context is too large or too slow to read (context 6.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from attrs import define, field

from hermitcrab.agent.assembled import SWITCH_ON, WAY_OUT, AssembledContext
from hermitcrab.agent.session import SessionContext
from hermitcrab.compaction.budget import Budget
from hermitcrab.compaction.outcome import CompactionOutcome, CompactionTrigger
from hermitcrab.errors import ModelOverflowError, ModelTimeoutError
from hermitcrab.memory.flush import FlushOutcome

logger = logging.getLogger("hermitcrab.agent")

#: Compactions because the provider called a request too large, for one turn.
OVERFLOW_ATTEMPTS = 3
#: Compactions because the model did not answer in time, for one turn.
TIMEOUT_ATTEMPTS = 2
#: A call that fills more than this share of the window may have timed out because of its size.
TIMEOUT_SHARE = 0.65
#: Where compacting does not help, what the model sees is cut to this share of what the provider refused.
_NARROWED_SHARE = 0.5

Tell = Callable[[Sequence[FlushOutcome], Sequence[CompactionOutcome]], None]


@define
class Recovery:
    """Decides, for one turn, whether a failed model call is worth another try, and makes the context smaller for it.

    The turn goes on from the transcript, in which the user's message stands already: it is never sent twice (C14).

    :param budget: how the window is divided; :param tell: takes the flushes and compactions that were tried.
    """

    session: SessionContext
    budget: Callable[[], Budget]
    tell: Tell
    _overflows: int = field(default=0, init=False)
    _timeouts: int = field(default=0, init=False)

    async def helps(self, error: Exception, context: AssembledContext) -> bool:
        """Whether the call should be made again.

        :raises ModelOverflowError: if the provider finds the request too large and nothing makes it smaller.
        """
        if isinstance(error, ModelOverflowError):
            await self._after_overflow(error, context)
            return True
        return isinstance(error, ModelTimeoutError) and await self._after_timeout(context)

    async def _after_overflow(self, error: ModelOverflowError, context: AssembledContext) -> None:
        self._overflows += 1
        if await self.session.compacted_since(context):
            if self._overflows <= OVERFLOW_ATTEMPTS:
                return
            raise self._hopeless(error, None) from error
        reason: str | None = None
        if self._is_enabled and self._overflows <= OVERFLOW_ATTEMPTS:
            observed = error.observed_tokens or context.window + 1
            outcome = await self._compact("overflow", observed_tokens=observed)
            if outcome.compacted or await self.session.compacted_since(context):
                return
            reason = outcome.reason
        if not self.session.narrow(int(context.tokens * _NARROWED_SHARE)):
            raise self._hopeless(error, reason) from error
        logger.warning(
            "the provider finds the request too large: what the model sees is cut further",
            extra={"session_key": self.session.log.key},
        )

    async def _after_timeout(self, context: AssembledContext) -> bool:
        share = context.request_tokens / context.window if context.window else 0.0
        if not self._is_enabled or share <= TIMEOUT_SHARE or self._timeouts >= TIMEOUT_ATTEMPTS:
            return False
        self._timeouts += 1
        if await self.session.compacted_since(context):
            return True
        outcome = await self._compact("timeout_recovery")
        return outcome.compacted or await self.session.compacted_since(context)

    @property
    def _is_enabled(self) -> bool:
        return self.session.parts.settings.compaction.enabled

    async def _compact(
        self, trigger: CompactionTrigger, observed_tokens: int | None = None
    ) -> CompactionOutcome:
        budget = self.budget()
        flushes = await self.session.flush(budget)
        outcome = await self.session.compact(
            budget, trigger=trigger, must_fit=True, observed_tokens=observed_tokens
        )
        self.tell(flushes, [outcome])
        self.tell(self.session.take_requested_flushes(), ())
        return outcome

    def _hopeless(self, error: ModelOverflowError, reason: str | None) -> ModelOverflowError:
        said = "the provider finds the request too large"
        hint = "Start afresh with /new or /reset, or use a model with a larger context window."
        if not self._is_enabled:
            said += ", and automatic compaction is off"
            hint = (
                f"Set agents.defaults.compaction.enabled to true, or compact with /compact. {hint}"
            )
        else:
            said += f" and nothing more can be compacted: {reason or error.message}"
        return ModelOverflowError(
            said,
            where=self.session.model.id,
            hint=WAY_OUT if self._is_enabled else SWITCH_ON,
            observed_tokens=error.observed_tokens,
        )
