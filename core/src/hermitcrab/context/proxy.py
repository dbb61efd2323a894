"""An engine that answers for another one: every method of the contract goes through one call."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from hermitcrab.context.contract import ContextEngine
from hermitcrab.context.results import (
    AssembleResult,
    BootstrapResult,
    CompactResult,
    IngestBatchResult,
    IngestResult,
    MaintainResult,
    SubagentPreparation,
)


class EngineProxy(ContextEngine):
    """The base of the wrappers that the host puts around engines; it takes any keyword parameter."""

    @abstractmethod
    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Carry out ``method``; the result is of the method's result class."""

    @abstractmethod
    def offers_method(self, name: str) -> bool:
        """Whether the engine behind has the method, see :func:`~hermitcrab.context.has_method`."""

    async def bootstrap(self, **params: Any) -> BootstrapResult:
        result: BootstrapResult = await self.call("bootstrap", params)
        return result

    async def maintain(self, **params: Any) -> MaintainResult:
        result: MaintainResult = await self.call("maintain", params)
        return result

    async def ingest(self, **params: Any) -> IngestResult:
        result: IngestResult = await self.call("ingest", params)
        return result

    async def ingest_batch(self, **params: Any) -> IngestBatchResult:
        result: IngestBatchResult = await self.call("ingest_batch", params)
        return result

    async def after_turn(self, **params: Any) -> None:
        await self.call("after_turn", params)

    async def assemble(self, **params: Any) -> AssembleResult:
        result: AssembleResult = await self.call("assemble", params)
        return result

    async def compact(self, **params: Any) -> CompactResult:
        result: CompactResult = await self.call("compact", params)
        return result

    async def prepare_subagent_spawn(self, **params: Any) -> SubagentPreparation | None:
        result: SubagentPreparation | None = await self.call("prepare_subagent_spawn", params)
        return result

    async def on_subagent_ended(self, **params: Any) -> None:
        await self.call("on_subagent_ended", params)

    async def dispose(self) -> None:
        await self.call("dispose", {})
