"""The window keeps the contract of context engines, and its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermitcrab.context import EngineContext
from hermitcrab.messages import Message, assistant, text_of, user
from hermitcrab.testing import ContextEngineContract, engine_context
from hermitcrab_sliding_window import SlidingWindow, SlidingWindowSettings


def window(turns: int, folder: Path) -> SlidingWindow:
    plain = engine_context(folder)
    return SlidingWindow(
        EngineContext(
            config=plain.config,
            plugin_config=SlidingWindowSettings(turns=turns),
            agent_id=plain.agent_id,
            workspace=plain.workspace,
            home=plain.home,
            logger=plain.logger,
        )
    )


class TestContract(ContextEngineContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.home = tmp_path

    def make_engine(self) -> SlidingWindow:
        return window(10, self.home)


def conversation(turns: int) -> list[Message]:
    return [each for n in range(turns) for each in (user(f"ask {n}"), assistant(f"answer {n}"))]


async def test_the_model_sees_the_last_turns(tmp_path: Path) -> None:
    messages = [*conversation(5), user("now")]
    result = await window(2, tmp_path).assemble(messages=messages)
    assert [text_of(each) for each in result.messages] == ["ask 4", "answer 4", "now"]


async def test_fewer_turns_are_shown_where_they_do_not_fit(tmp_path: Path) -> None:
    messages = [user("x" * 4000), assistant("long"), user("now")]
    result = await window(10, tmp_path).assemble(messages=messages, token_budget=200)
    assert [text_of(each) for each in result.messages] == ["now"]
