"""``python -m bench.hooks``: what firing a hook costs, beside a plain call through pluggy."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pluggy
from bench.harness import Report, Row, Side, compare, table_of
from rich.console import Console

from hermitcrab.hooks import AfterToolCall, HookContext
from hermitcrab.hooks.dispatcher import HookDispatcher
from hermitcrab.hooks.implementations import HookImplementation, HookImplementations

HOOK = "after_tool_call"
EVENT = AfterToolCall(tool_name="read", params={})
CONTEXT = HookContext(agent_id="main", session_key="agent:main:main")
EXPLANATION = (
    "ratio: what hermitcrab takes in units of what pluggy takes, the median of neighbouring runs"
)

specification = pluggy.HookspecMarker("bench")
implementation = pluggy.HookimplMarker("bench")


class Specifications:
    """The one hook, as pluggy knows it."""

    @specification
    def after_tool_call(self, event: Any, ctx: Any) -> Any:
        """A tool has run."""


class Listener:
    """A plugin of pluggy's that does nothing."""

    @implementation
    def after_tool_call(self, event: Any, ctx: Any) -> None:
        return None


def listen(event: Any, ctx: Any) -> None:
    """A handler of hermitcrab's that does nothing."""
    return


async def listen_async(event: Any, ctx: Any) -> None:
    """The same, as a coroutine."""
    return


def plain(count: int) -> Side:
    """Pluggy with ``count`` plugins."""
    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(Specifications)
    for _ in range(count):
        manager.register(Listener())
    call = manager.hook.after_tool_call

    async def run(times: int) -> None:
        for _ in range(times):
            call(event=EVENT, ctx=CONTEXT)

    return Side("pluggy", run)


def ours(count: int, function: Callable[..., Any] = listen) -> Side:
    """hermitcrab with ``count`` plugins."""
    dispatcher = HookDispatcher(
        HookImplementations(
            HookImplementation(plugin_id=f"p{number}", hook=HOOK, function=function, order=number)
            for number in range(count)
        )
    )
    fire = dispatcher.fire

    async def run(times: int) -> None:
        for _ in range(times):
            await fire(EVENT, CONTEXT)

    return Side("hermitcrab", run)


async def measure(runs: int, count: int) -> list[Row]:
    """Every comparison, in turns."""
    rows = []
    for handlers, name in ((0, "no handler"), (1, "1 plain handler"), (10, "10 plain handlers")):
        rows.append(await compare(name, plain(handlers), ours(handlers), count=count, runs=runs))
    beside = ours(10, listen_async)
    rows.append(
        await compare(
            "10 coroutines, beside 10 plain functions",
            plain(10),
            beside,
            count=count // 20,
            runs=runs,
        )
    )
    return rows


@click.command()
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT")
@click.option("--runs", default=15, show_default=True, help="How many pairs of runs.")
@click.option("--count", default=20_000, show_default=True, help="How many calls a run has.")
def main(json_file: Path | None, runs: int, count: int) -> None:
    """Measure calls of a hook and print a table. OUT gets every single run as JSON."""
    logging.getLogger("hermitcrab").setLevel(logging.ERROR)
    report = Report("hooks", "One call of a hook", EXPLANATION, asyncio.run(measure(runs, count)))
    Console().print(table_of(report))
    if json_file is not None:
        json_file.write_text(json.dumps([report.record()], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
