"""Entry points in memory and a ``plugins`` section in miniature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import field, frozen

from hermitcrab.plugins.host import PluginHost
from hermitcrab.plugins.registration import PluginRegistries


@frozen(kw_only=True)
class HooksStandIn:
    allow_prompt_injection: bool = True
    allow_conversation_access: bool | None = None
    timeout_ms: int | None = None
    timeouts: Mapping[str, int] = field(factory=dict)


@frozen(kw_only=True)
class EntryStandIn:
    enabled: bool | None = None
    config: Mapping[str, Any] = field(factory=dict)
    hooks: HooksStandIn = field(factory=HooksStandIn)


@frozen(kw_only=True)
class SlotsStandIn:
    context_engine: str = "legacy"
    memory: str = "none"


@frozen(kw_only=True)
class PluginsStandIn:
    enabled: bool = True
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    slots: SlotsStandIn = field(factory=SlotsStandIn)
    entries: Mapping[str, EntryStandIn] = field(factory=dict)


@frozen(kw_only=True)
class FakeDistribution:
    name: str
    version: str = "1.0"
    requires: Sequence[str] | None = None


@frozen(kw_only=True)
class FakeEntryPoint:
    """An entry point whose ``load`` calls ``loader``."""

    name: str
    group: str = "hermitcrab.plugins"
    value: str = "some_module"
    dist: FakeDistribution | None = None
    loader: Callable[[], Any] = field(default=lambda: SimpleNamespace())

    def load(self) -> Any:
        return self.loader()


class Workbench:
    """Builds fake plugins and loads them."""

    Config = PluginsStandIn
    Entry = EntryStandIn
    Hooks = HooksStandIn
    Slots = SlotsStandIn

    def entry_point(
        self,
        id: str,
        plugin: Any = None,
        *,
        group: str = "hermitcrab.plugins",
        distribution: str | None = None,
        version: str = "1.0",
        requires: Sequence[str] = (),
        loader: Callable[[], Any] | None = None,
        value: str | None = None,
    ) -> FakeEntryPoint:
        return FakeEntryPoint(
            name=id,
            group=group,
            value=value or f"{id.replace('-', '_')}_module",
            dist=FakeDistribution(
                name=distribution or f"{id}-distribution", version=version, requires=requires
            ),
            loader=loader or (lambda: plugin),
        )

    def plugin(self, *functions: Callable[..., Any]) -> Any:
        """A plugin that carries these marked functions under their names."""
        return SimpleNamespace(**{each.__name__: each for each in functions})

    def load(
        self,
        *entry_points: FakeEntryPoint,
        config: PluginsStandIn | None = None,
        registries: PluginRegistries | None = None,
        environ: Mapping[str, str] | None = None,
        **more: Any,
    ) -> PluginHost:
        return PluginHost.load(
            config or PluginsStandIn(),
            entry_points=self._with_default_engine(entry_points),
            registries=registries,
            environ=environ or {},
            **more,
        )

    def _with_default_engine(self, entry_points: Iterable[FakeEntryPoint]) -> list[FakeEntryPoint]:
        from hermitcrab.hooks import hookimpl

        @hookimpl
        def register_context_engines(registry: Any) -> None:
            registry.register("legacy", object)

        return [
            self.entry_point(
                "legacy",
                self.plugin(register_context_engines),
                group="hermitcrab.context_engines",
                distribution="hermitcrab-context-legacy",
            ),
            *entry_points,
        ]


@pytest.fixture
def bench() -> Workbench:
    return Workbench()
