"""Requests for summaries over HTTP: cancelling reaches the server, and the session's own model stands in (P7, P25)."""

from __future__ import annotations

import asyncio
import json

import pytest

from hermitcrab.messages import assistant, user

MAIN = "agent:main:main"
NOTES = "\n".join(
    (
        "## Decisions\n- The port is 8443.",
        "## Open TODOs\nNone.",
        "## Constraints/Rules\nNone.",
        "## Pending user asks\n- Tell me more of part 11.",
        "## Exact identifiers\nNone captured.",
    )
)


class SummaryServer:
    """Answers chat completions with ``answer``, a text or a status; with ``None`` it waits until the client leaves."""

    def __init__(self):
        self.answer = None
        self.asked = asyncio.Event()
        self.left = asyncio.Event()
        self.requests = 0
        self.port = 0

    async def serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if head.startswith("get"):  # what the server knows of the model
            self._send(writer, 404, {})
            writer.close()
            return
        length = head.split("content-length: ")[1].split("\r\n")[0]
        await reader.readexactly(int(length))
        self.requests += 1
        self.asked.set()
        if self.answer is None:
            assert await reader.read() == b""
            self.left.set()
        elif isinstance(self.answer, int):
            self._send(writer, self.answer, {"error": {"message": "not today"}})
        else:
            message = {"role": "assistant", "content": self.answer}
            self._send(writer, 200, {"choices": [{"message": message, "finish_reason": "stop"}]})
        writer.close()

    def _send(self, writer, status, body):
        data = json.dumps(body).encode()
        lines = ["Content-Type: application/json", "Connection: close"]
        lines = [f"HTTP/1.1 {status} x", *lines, f"Content-Length: {len(data)}", "", ""]
        writer.write("\r\n".join(lines).encode() + data)


@pytest.fixture
async def server():
    scripted = SummaryServer()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.port = listening.sockets[0].getsockname()[1]
    yield scripted
    listening.close()
    await listening.wait_closed()


@pytest.fixture
def config(server):
    url = f"http://127.0.0.1:{server.port}/v1"
    compaction = {"model": "lab/tiny", "memoryFlush": False}
    return {
        "models": {"providers": {"lab": {"baseUrl": url, "models": {"tiny": {}}}}},
        "agents": {"defaults": {"contextTokens": 8_000, "compaction": compaction}},
        "plugins": {"slots": {"memory": "none"}},
    }


async def _talk(host):
    """A session with the offline model that is due for a compaction, and its transcript."""
    session = await host.session(MAIN)
    for number in range(24):
        await session.append(user(f"Tell me more of part {number}. " + "It is a long story. " * 30))
        await session.append(assistant(f"Part {number} is about crabs. " + "They grow. " * 50))
    await session.end_turn()
    return session.file


async def _cancelled(task, server):
    """Cancel a task while the server has its request, and wait until the server sees the client leave."""
    await asyncio.wait_for(server.asked.wait(), timeout=20)
    assert not server.left.is_set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.left.wait(), timeout=20)


async def test_cancelling_a_compaction_cancels_its_request_and_leaves_nothing(
    open_host, server, config
):
    async with open_host(config=config) as host:
        file = await _talk(host)
        before, tasks = file.read_bytes(), asyncio.all_tasks()
        compaction = asyncio.create_task(host.compact(MAIN))
        await _cancelled(compaction, server)
        assert file.read_bytes() == before
        assert {task for task in asyncio.all_tasks() - tasks if "serve" not in str(task)} == set()
        assert server.requests == 1
        server.answer = NOTES
        assert (await host.compact(MAIN)).compacted


async def test_cancelling_a_turn_during_a_summary_cancels_the_request(
    open_host, crab, server, config
):
    async with open_host(config=config) as host:
        file = await _talk(host)
        turn = asyncio.create_task(host.send(MAIN, "And now?"))
        await _cancelled(turn, server)
        kinds = [entry["type"] for entry in crab.entries_of(file)]
        assert "compaction" not in kinds
        server.answer = NOTES
        reply = await host.send(MAIN, "Go on.")
    assert [outcome.compacted for outcome in reply.compactions] == [True]


async def test_the_own_model_writes_the_summary_where_the_provider_of_the_other_fails(
    open_host, server, config
):
    server.answer = 401
    async with open_host(config=config) as host:
        await _talk(host)
        outcome = await host.compact(MAIN)
    assert outcome.compacted
    assert outcome.mode == "model"
    assert "the summary model lab/tiny is not used" in outcome.reason
    assert server.requests > 0


async def test_an_empty_answer_is_no_reason_to_ask_the_own_model(open_host, server, config):
    server.answer = " "
    async with open_host(config=config) as host:
        await _talk(host)
        outcome = await host.compact(MAIN)
    assert outcome.status == "failed"
    assert "no summary text" in outcome.reason
    assert "is not used" not in outcome.reason
