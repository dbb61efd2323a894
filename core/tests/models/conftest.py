"""A loopback HTTP server that answers as scripted, each answer in one write."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from attrs import define, field, frozen

from hermitcrab.models import AnthropicModel, OpenAICompatibleModel

KEY = "secret-key-0123456789"


@frozen
class Received:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@define
class ScriptedServer:
    port: int = 0
    answers: deque[bytes] = field(factory=deque)
    received: list[Received] = field(factory=list)
    #: Set when a request has arrived.
    arrived: asyncio.Event = field(factory=asyncio.Event)
    #: Set when a client has left a connection that was kept open.
    abandoned: asyncio.Event = field(factory=asyncio.Event)
    hold_open: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def answer(
        self, body: Any, status: int = 200, content_type: str = "application/json", **headers: str
    ) -> None:
        """Queue an answer: a text as it stands, anything else as JSON."""
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        lines = [
            f"HTTP/1.1 {status} Scripted",
            f"Content-Type: {content_type}",
            "Connection: close",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        if not self.hold_open:
            lines.append(f"Content-Length: {len(content)}")
        self.answers.append("\r\n".join([*lines, "", ""]).encode() + content)

    def events(self, *pieces: Any, done: bool = True) -> None:
        """Queue a stream of events."""
        texts = [piece if isinstance(piece, str) else json.dumps(piece) for piece in pieces]
        lines = [f"data: {text}\n\n" for text in [*texts, *(["[DONE]"] if done else [])]]
        self.answer("".join(lines), content_type="text/event-stream")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers: dict[str, str] = {}
        for name, _, value in (line.partition(": ") for line in head[1:]):
            before = headers.get(name.lower())
            headers[name.lower()] = value if before is None else f"{before}, {value}"
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.received.append(Received(method, path, headers, json.loads(body) if body else None))
        self.arrived.set()
        writer.write(self.answers.popleft() if self.answers else b"HTTP/1.1 404 No\r\n\r\n")
        await writer.drain()
        if self.hold_open:
            await reader.read()
            self.abandoned.set()
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.port = listening.sockets[0].getsockname()[1]
    yield scripted
    listening.close()
    await listening.wait_closed()


@pytest.fixture
async def model(server: ScriptedServer) -> AsyncIterator[OpenAICompatibleModel]:
    made = OpenAICompatibleModel(
        "lab", "tiny", server.url, api_key=KEY, timeout_s=5, max_retries=2, backoff_s=0
    )
    yield made
    await made.close()


@pytest.fixture
async def claude(server: ScriptedServer) -> AsyncIterator[AnthropicModel]:
    made = AnthropicModel(
        "anthropic", "claude-x", server.url, api_key=KEY, timeout_s=5, max_retries=2, backoff_s=0
    )
    yield made
    await made.close()
