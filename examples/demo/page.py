"""The page that a person reads: headline, window, compactions, flushes, answers, what next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from hermitcrab.compaction.outcome import CompactionOutcome
from hermitcrab.memory.flush import FlushOutcome

from .chart import COMPACTION_MARK, FLUSH_MARK, TURNS_PER_BAR, axis, bars, draw
from .excerpt import answer_in
from .questions import Answer
from .story import Story, TurnRecord

#: Wider than this, lines are hard to read.
WIDEST = 110
#: From this width on, the two tables stand side by side.
_SIDE_BY_SIDE = 80
#: What a line of the chart needs beside its bar.
_CHART_MARGIN = 26
_NARROWEST_BAR = 12

_QUIET = "dim"
_FLUSH = "green"
_COMPACTION = "magenta"
_GOOD, _BAD = "green", "bold red"


def page(story: Story, *, width: int, next_steps: str) -> RenderableType:
    """Everything that the demo shows, for a page of ``width`` columns."""
    return Group(
        *_headline(story),
        *_section("The window over time", _chart(story, width)),
        *_section("What left the window, and what was saved first", _tables(story, width)),
        *_section(
            "Questions, asked afterwards in a fresh session",
            Group(*[_answer(answer, number) for number, answer in enumerate(story.answers, 1)]),
        ),
        *_ending(story, next_steps),
    )


def print_page(console: Console, story: Story, *, next_steps: str) -> None:
    """Print the page on ``console``."""
    width = min(console.width, WIDEST)
    console.print(page(story, width=width, next_steps=next_steps), width=width)


def _headline(story: Story) -> Iterator[RenderableType]:
    report = story.report
    yield Text()
    yield Rule(Text("hermitcrab remembers what its window cannot hold", "bold"), style=_QUIET)
    yield Text(
        f"A recorded conversation of {report['turns']} turns between a developer and an agent just"
        f" ran again through the real pipeline, in a window of only {report['contextWindow']:,}"
        f" tokens: notes were flushed to memory ({FLUSH_MARK}) before old messages were compacted"
        f" away ({COMPACTION_MARK})."
        f" Then a fresh session was asked {_number_word(len(story.answers))} questions whose answers"
        " had left the window, and memory found each of them, down to the line."
        if story.proved
        else f"A recorded conversation of {report['turns']} turns just ran again in a window of"
        f" {report['contextWindow']:,} tokens. Memory did not answer everything afterwards:"
        " see the ✗ below."
    )


def _number_word(number: int) -> str:
    return {1: "one", 2: "two", 3: "three", 4: "four"}.get(number, str(number))


def _section(title: str, body: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Rule(Text(title, "bold"), style=_QUIET, align="left")
    yield body


# -- the window -----------------------------------------------------------------------------------


def _chart(story: Story, width: int) -> RenderableType:
    window = int(story.report["contextWindow"])
    cells = max(_NARROWEST_BAR, width - _CHART_MARGIN)
    lines: list[Text] = []
    for bar in bars(story.turns, story.fixed_tokens):
        used, left, free = draw(bar, window, cells)
        line = Text.assemble(
            (f"{bar.label:>7} ", _QUIET),
            (used, "cyan"),
            (left, _QUIET),
            (f"{free}▏", _QUIET),
            f"{bar.end_tokens:>6,} ",
            *[(mark, _FLUSH if mark == FLUSH_MARK else _COMPACTION) for mark in bar.marks],
        )
        line.rstrip()
        lines.append(line)
    scale = Text(f"{'turns':>7} {axis(window, cells)} tokens", _QUIET)
    legend = Text.assemble(
        ("█", "cyan"),
        f" after these {TURNS_PER_BAR} turns   ",
        ("░", _QUIET),
        " before compaction   ",
        (FLUSH_MARK, _FLUSH),
        " flush   ",
        (COMPACTION_MARK, _COMPACTION),
        " compaction",
        style=_QUIET,
    )
    reserve = Text("A quarter of so small a window stays free for the model's answer.", _QUIET)
    return Group(*lines, scale, Text(), legend, reserve)


# -- the tables -----------------------------------------------------------------------------------


def _tables(story: Story, width: int) -> RenderableType:
    compactions, flushes = _compactions(story), _flushes(story)
    if width < _SIDE_BY_SIDE:
        return Group(compactions, Text(), flushes)
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_row(compactions, flushes)
    return grid


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="",
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style=_QUIET,
    )


def _compactions(story: Story) -> Table:
    marks = [(turn, mark) for turn in story.turns for mark in turn.compactions]
    table = _table(f"{COMPACTION_MARK} {len(marks)} compactions")
    table.add_column("turn", justify="right")
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("messages", justify="right")
    table.add_column("identifiers", justify="right")
    table.add_column("mode")
    for turn, mark in marks:
        table.add_row(*_compaction_row(turn, mark))
    return table


def _compaction_row(turn: TurnRecord, mark: CompactionOutcome) -> list[RenderableType]:
    complete = mark.identifiers_kept == mark.identifiers_required
    return [
        str(turn.turn),
        f"{mark.tokens_before:,} → {mark.tokens_after or 0:,}",
        str(mark.messages_summarized),
        Text(f"{mark.identifiers_kept}/{mark.identifiers_required}", "" if complete else _BAD),
        mark.mode or "engine",
    ]


def _flushes(story: Story) -> Table:
    marks = [(turn, mark) for turn in story.turns for mark in turn.flushes]
    table = _table(f"{FLUSH_MARK} {len(marks)} flushes to memory")
    table.add_column("turn", justify="right")
    table.add_column("file", no_wrap=True)
    table.add_column("bytes", justify="right")
    for turn, mark in marks:
        table.add_row(*_flush_row(turn, mark))
    return table


def _flush_row(turn: TurnRecord, mark: FlushOutcome) -> list[RenderableType]:
    size = Text(f"{mark.bytes_written:,}") if mark.error is None else Text("failed", _BAD)
    return [str(turn.turn), PurePosixPath(mark.path).name, size]


# -- the answers ----------------------------------------------------------------------------------


def _answer(answer: Answer, number: int) -> RenderableType:
    question = Text.assemble((f"{number}  ", _QUIET), (answer.question.text, "bold"))
    said = Text(answer_in(answer.reply, answer.question.expect))
    said.highlight_words(answer.question.expect, "bold yellow")
    body = Group(said, _source(answer), _history(answer))
    return Padding(Group(question, Padding(body, (0, 0, 0, 3))), (0, 0, 1, 0))


def _source(answer: Answer) -> Text:
    source = answer.source
    place = ("nothing found", _BAD) if source is None else (source.citation, "cyan")
    text = Text.assemble(("source  ", _QUIET), place)
    for word in answer.question.expect:
        good = word in answer.found and word in answer.replied
        text.append("   ")
        text.append(f"{'✓' if good else '✗'} {word}", _GOOD if good else _BAD)
    return text


def _history(answer: Answer) -> Text:
    said = "never said" if answer.said_in is None else f"said in turn {answer.said_in}"
    if answer.compacted_in is None:
        return Text.assemble(("proof   ", _QUIET), said, ("   ✗ never compacted away", _BAD))
    gone = not answer.left_in_window
    return Text.assemble(
        ("proof   ", _QUIET),
        f"{said}, compacted away in turn {answer.compacted_in}   ",
        ("✓ gone from the window", _GOOD)
        if gone
        else (f"✗ still in the window: {', '.join(answer.left_in_window)}", _BAD),
    )


# -- the end --------------------------------------------------------------------------------------


def _ending(story: Story, next_steps: str) -> Iterator[RenderableType]:
    report = story.report
    pairing = report["pairing"]
    broken = pairing["orphanResults"] + pairing["missingResults"]
    memory = report["memory"]
    yield Rule(style=_QUIET)
    yield Text(
        f"{report['source']['messages']} messages in {report['timings']['totalMs'] / 1000:.1f} s,"
        f" offline. Largest request {report['peakTokens']:,} of {report['contextWindow']:,} tokens,"
        f" {report['overflows']} overflows, {broken} broken tool pairs."
        f" Memory: {memory['files']} files of Markdown."
    )
    yield Text()
    yield Text(next_steps)
