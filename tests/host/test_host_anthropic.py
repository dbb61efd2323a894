"""Turns with a model behind the Messages API, from the configuration to the bytes on the wire and back."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest

MAIN = "agent:main:main"
THOUGHT = {"type": "thinking", "thinking": "I should look.", "signature": "sig=="}


class Scripted(BaseHTTPRequestHandler):
    """Answers each request with the next of the server's answers: events of a stream, or a status and an error."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(json.loads(body))
        answer = self.server.answers.pop(0)
        if isinstance(answer, tuple):
            status, message = answer
            error = {"type": "error", "error": {"type": "x", "message": message}}
            self._send(status, "application/json", json.dumps(error))
        elif self.server.bodies[-1]["stream"]:
            events = "".join(
                f"event: x\ndata: {json.dumps(event)}\n\n" for event in events_of(answer)
            )
            self._send(200, "text/event-stream", events)
        else:
            content = {"content": answer, "stop_reason": "end_turn"}
            self._send(200, "application/json", json.dumps(content))

    def _send(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        """Nothing: a test has no log on the terminal."""


def events_of(parts):
    yield {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
    for index, part in enumerate(parts):
        yield {"type": "content_block_start", "index": index, "content_block": part}
        yield {"type": "content_block_stop", "index": index}
    calls = any(part["type"] == "tool_use" for part in parts)
    reason = {"stop_reason": "tool_use" if calls else "end_turn"}
    yield {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def text(words):
    return {"type": "text", "text": words}


@pytest.fixture
def server():
    served = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    served.answers, served.bodies = [], []
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.fixture
def config(server):
    return {
        "models": {
            "providers": {
                "anthropic": {
                    "baseUrl": f"http://127.0.0.1:{server.server_port}/v1",
                    "apiKey": "sk-ant-test",
                    "maxRetries": 0,
                    "models": {"claude-x": {"reasoning": True, "contextWindow": 20_000}},
                }
            }
        },
        "agents": {"defaults": {"model": "anthropic/claude-x"}},
    }


async def test_a_turn_with_thinking_and_a_tool(open_host, home, crab, server, config):
    """The thinking is kept with its signature, and goes back with the call that it led to (C49)."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.md"}}
    server.answers += [[THOUGHT, text("Let me see."), call], [text("It is 5437.")]]
    async with open_host(config=config) as host:
        (home / "workspace").mkdir(exist_ok=True)
        (home / "workspace" / "a.md").write_text("port 5437\n")
        reply = await host.send(MAIN, "Which port?")
    assert reply.text == "It is 5437."
    assert (reply.usage.input, reply.usage.output) == (18, 10)
    first, second = server.bodies
    assert first["thinking"] == second["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert "edit" in {tool["name"] for tool in first["tools"]}
    asked, answered, results = second["messages"]
    assert asked == {"role": "user", "content": [text("Which port?")]}
    assert answered["content"] == [THOUGHT, text("Let me see."), call]
    assert results["content"][0]["tool_use_id"] == "toolu_1"
    assert results["content"][0]["content"] == [text("port 5437")]
    assert results["content"][-1]["cache_control"] == {"type": "ephemeral"}
    (file,) = (home / "agents/main/sessions").glob("*.jsonl")
    stored = crab.stored_messages(file)[1]
    assert (stored["provider"], stored["model"]) == ("anthropic", "claude-x")
    assert stored["content"][0]["thinkingSignature"] == "sig=="
    assert "sk-ant-test" not in file.read_text()


async def test_a_request_that_the_provider_finds_too_long_is_compacted_and_sent_again(
    open_host, home, crab, server, config
):
    """C14: the user's message is sent once."""
    server.answers += [[text("ok " * 300)] for _ in range(6)]
    async with open_host(config=config) as host:
        for number in range(6):
            await host.send(MAIN, f"Fact {number}: " + "the ferry sails at noon. " * 40)
        before = len(server.bodies)
        server.answers.append((400, "prompt is too long: 20001 tokens > 20000 maximum"))
        server.answers += [[text("NO_REPLY")]] * 20
        reply = await host.send(MAIN, "And now?")
    assert [outcome.trigger for outcome in reply.compactions if outcome.compacted] == ["overflow"]
    last = server.bodies[-1]["messages"]
    assert len(last) < len(server.bodies[before]["messages"])
    assert str(server.bodies[-1]).count("And now?") == 1
    assert all(one["role"] != two["role"] for one, two in pairwise(last))
