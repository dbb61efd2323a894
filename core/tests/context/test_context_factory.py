"""Making an engine from what was registered: design 3."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from hermitcrab.context import EngineContext
from hermitcrab.context.factory import make_engine
from hermitcrab.errors import ContextEngineError


class TakesContext:
    def __init__(self, context: Any) -> None:
        self.got = context


class TakesNothing:
    got = None


class TakesAPath:
    def __init__(self, path: str = "x.db") -> None:
        self.got = path


class TakesContextByKeyword:
    def __init__(self, *, context: Any) -> None:
        self.got = context


class AnnotatesContext:
    def __init__(self, settings: EngineContext | None = None, **rest: Any) -> None:
        self.got = settings


async def asynchronous(context: Any) -> Any:
    return TakesContext(context)


@pytest.mark.parametrize(
    ("factory", "expects_context"),
    [
        (TakesContext, True),
        (asynchronous, True),
        (lambda ctx: TakesContext(ctx), True),
        (lambda anything: TakesContext(anything), True),
        (lambda *arguments: TakesContext(*arguments), True),
        (lambda context=None: TakesContext(context), True),
        (TakesContextByKeyword, True),
        (partial(TakesContext), True),
        (TakesNothing, False),
        (lambda: TakesNothing(), False),
        (partial(TakesContext, None), False),
    ],
)
async def test_a_factory_gets_the_context_unless_it_takes_nothing(
    factory: Any, expects_context: bool, context: EngineContext
) -> None:
    engine = await make_engine(factory, context)
    assert engine.got is (context if expects_context else None)


async def test_an_optional_argument_of_another_meaning_is_left_alone(
    context: EngineContext,
) -> None:
    assert (await make_engine(TakesAPath, context)).got == "x.db"


async def test_a_factory_that_needs_more_is_told_so(context: EngineContext) -> None:
    with pytest.raises(ContextEngineError, match=r"needs 2 arguments \(config, path\)"):
        await make_engine(lambda config, path: None, context)


async def test_what_a_factory_raises_goes_through(context: EngineContext) -> None:
    def factory() -> Any:
        raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        await make_engine(factory, context)
