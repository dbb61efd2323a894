"""``hermitcrab replay``: a recorded conversation through the real pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.agent.replay import ReplayOptions, ReplayProgress, ReplayStart
    from hermitcrab.cli.progress import ProgressBar
    from hermitcrab.config import Config


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--context-window", type=click.IntRange(min=1000), help="The window in tokens, from 1000."
)
@click.option("--engine", help="The context engine; default that of the configuration.")
@click.option("--agent", "agent_id", default="main", show_default=True, help="The agent.")
@click.option("--model", help="Writes flushes and summaries, provider/name; default offline.")
@click.option("--until", type=click.IntRange(min=1), help="Stop after this many user turns.")
@click.option("--scratch", is_flag=True, help="Use a temporary home, removed afterwards.")
@json_option
@common_options
@pass_settings
def replay_command(
    settings: Settings,
    file: Path,
    context_window: int | None,
    engine: str | None,
    agent_id: str,
    model: str | None,
    until: int | None,
    scratch: bool,
    as_json: bool,
) -> None:
    """Drive the transcript FILE through flushes, compactions and memory, turn by turn, and report.

    Answers and tool results are the recorded ones. FILE is only read; each run writes a new session.
    """
    from hermitcrab.agent.replay import ReplayOptions
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.replay_report import print_report
    from hermitcrab.cli.running import run

    options = ReplayOptions(
        source=file.expanduser().absolute(),
        context_window=context_window,
        engine=engine,
        agent_id=agent_id,
        model=model,
        until=until,
    )
    config = settings.config()
    with _home(settings, scratch=scratch) as home:
        report = run(_replay(options, home, scratch_config(config) if scratch else config))
        if as_json:
            print_json(report)
        else:
            print_report(report)


async def _replay(options: ReplayOptions, home: Path, config: Config) -> dict[str, Any]:
    from hermitcrab.agent.replay import replay
    from hermitcrab.cli.progress import ProgressBar

    with ProgressBar("replay", after_s=0) as bar:
        return await replay(
            options,
            home=home,
            config=config,
            on_start=_say_start,
            on_turn=lambda progress: _say_turn(bar, progress),
        )


@contextmanager
def _home(settings: Settings, *, scratch: bool) -> Iterator[Path]:
    if not scratch:
        yield settings.home_folder()
        return
    from hermitcrab.cli.output import note

    with tempfile.TemporaryDirectory(prefix="hermitcrab-replay-") as folder:
        note(f"temporary home {folder}, removed afterwards")
        yield Path(folder)


def scratch_config(config: Config) -> Config:
    """The configuration without the workspaces that it names, so that a temporary home holds everything."""
    from attrs import evolve

    defaults = evolve(config.agents.defaults, workspace=None)
    entries = tuple(evolve(entry, workspace=None) for entry in config.agents.list)
    return evolve(config, agents=evolve(config.agents, defaults=defaults, list=entries))


def _say_start(start: ReplayStart) -> None:
    from hermitcrab.cli.output import note, warn
    from hermitcrab.cli.wording import describe_faults

    note(f"session {start.session_key}, new session id {start.session_file.stem}")
    note(f"written to {start.session_file} · engine {start.engine} · {start.turns} turns")
    for sentence in describe_faults(start.faults):
        warn(sentence)
    if start.degraded is not None:
        warn(f"the engine legacy answers: {start.degraded}")


def _say_turn(bar: ProgressBar, progress: ReplayProgress) -> None:
    bar.update(progress.turn, progress.turns, f"{progress.window_tokens:,} tokens")
