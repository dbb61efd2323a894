"""The peer langgraph with its SQLite savers, at the two levels of durability that we have too.

A saver stores the whole state of a thread at every step, so what it costs depends on the thread's length: here a
thread begins anew after 100 messages.
"""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import count as count_from
from pathlib import Path
from typing import Annotated, Any, TypedDict

from bench.harness import Run

from .homes import sample_message

DISTRIBUTION = "langgraph"
THREAD_LENGTH = 100


class State(TypedDict):
    """What the graph keeps: the messages, each step's added to those before."""

    messages: Annotated[list[Any], operator.add]


@asynccontextmanager
async def open_saver(file: Path, synchronous: str) -> AsyncIterator[Any]:
    """The asynchronous saver on ``file``. It sets WAL itself and leaves SQLite at ``synchronous = full``.

    :raises ImportError: if langgraph or its SQLite saver is not installed.
    """
    saver_class: Any = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    async with saver_class.from_conn_string(str(file)) as saver:
        await saver.setup()
        await saver.conn.execute(f"pragma synchronous = {synchronous}")
        yield saver


def open_blocking_saver(file: Path, synchronous: str) -> Any:
    """The synchronous saver on ``file``; close its ``conn`` afterwards.

    :raises ImportError: if langgraph or its SQLite saver is not installed.
    """
    saver_class: Any = import_module("langgraph.checkpoint.sqlite").SqliteSaver
    saver = saver_class(sqlite3.connect(file, check_same_thread=False))
    saver.setup()
    saver.conn.execute(f"pragma synchronous = {synchronous}")
    return saver


class Steps:
    """The checkpoints of threads to which one message a step is added."""

    def __init__(self) -> None:
        self._new_checkpoint: Callable[[], Any] = import_module(
            "langgraph.checkpoint.base"
        ).empty_checkpoint
        self._threads = count_from()
        self._messages: list[Any] = []
        self.config: Any = None

    def next(self) -> tuple[Any, Any, Any, Any]:
        """The arguments of the saver's next ``put``."""
        if self.config is None or len(self._messages) == THREAD_LENGTH:
            self._messages = []
            thread = f"thread-{next(self._threads)}"
            self.config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        self._messages.append(sample_message())
        step = len(self._messages)
        checkpoint = self._new_checkpoint()
        checkpoint["channel_values"] = {"messages": list(self._messages)}
        checkpoint["channel_versions"] = {"messages": step}
        metadata = {"source": "loop", "step": step, "parents": {}}
        return self.config, checkpoint, metadata, {"messages": step}


def puts(saver: Any) -> Run:
    """Runs of the asynchronous saver alone: one checkpoint a message."""
    steps = Steps()

    async def run(count: int) -> None:
        for _ in range(count):
            steps.config = await saver.aput(*steps.next())

    return run


def blocking_puts(saver: Any) -> Run:
    """Runs of the synchronous saver alone: one checkpoint a message, in the caller's thread."""
    steps = Steps()

    async def run(count: int) -> None:
        for _ in range(count):
            steps.config = saver.put(*steps.next())

    return run


def graph_steps(saver: Any) -> Run:
    """Runs of a graph with one node that does nothing: what a user of langgraph does to add a message."""
    graph_module: Any = import_module("langgraph.graph")
    builder = graph_module.StateGraph(State)
    builder.add_node("idle", lambda state: {"messages": []})
    builder.add_edge(graph_module.START, "idle")
    builder.add_edge("idle", graph_module.END)
    graph = builder.compile(checkpointer=saver)
    numbers = count_from()

    async def run(count: int) -> None:
        for _ in range(count):
            thread = f"graph-{next(numbers) // THREAD_LENGTH}"
            state = {"messages": [sample_message()]}
            await graph.ainvoke(state, {"configurable": {"thread_id": thread}})

    return run
