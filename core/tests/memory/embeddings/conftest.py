"""An embedding server on loopback, and providers that ask it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen

from hermitcrab.memory import EmbeddingContext
from hermitcrab.memory.embeddings import protocols
from hermitcrab.memory.embeddings.remote import Limits, RemoteEmbeddings, Server
from hermitcrab.models.http import RetryPolicy

KEY = "secret-key-0123456789"


@frozen
class Received:
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def texts(self) -> list[str]:
        return self.body["input"]


@frozen
class Answer:
    """``body`` is a text as it stands, anything else is JSON; ``delay_s`` passes before it is sent."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)
    delay_s: float = 0.0

    def encoded(self) -> bytes:
        content = (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()
        lines = [
            f"HTTP/1.1 {self.status} Scripted",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            "Connection: close",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + content


def vector_of(text: str) -> list[float]:
    """Any vector of three numbers that tells texts apart."""
    return [float(len(text)), float(sum(text.encode()) % 97), 1.0]


def data(texts: list[str]) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": vector_of(t)} for i, t in enumerate(texts)]}


@define
class EmbeddingServer:
    """Answers each request with ``respond``, or with what is in ``script`` first."""

    port: int = 0
    respond: Callable[[Received], Answer] = lambda received: Answer(data(received.texts))
    script: list[Answer] = field(factory=list)
    received: list[Received] = field(factory=list)
    running: int = 0
    most_running: int = 0
    arrived: asyncio.Event = field(factory=asyncio.Event)
    #: Set when a client left before it got its answer.
    abandoned: asyncio.Event = field(factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])
        }
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        received = Received(head[0].split(" ")[1], headers, body)
        self.received.append(received)
        self.arrived.set()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        answer = self.script.pop(0) if self.script else self.respond(received)
        try:
            await self.wait(reader, answer.delay_s)
            writer.write(answer.encoded())
            await writer.drain()
        except ConnectionError:
            self.abandoned.set()
        finally:
            self.running -= 1
            writer.close()

    async def wait(self, reader: asyncio.StreamReader, delay_s: float) -> None:
        try:
            async with asyncio.timeout(delay_s):
                await reader.read()
        except TimeoutError:
            return
        raise ConnectionError("the client left")


@pytest.fixture
async def server() -> AsyncIterator[EmbeddingServer]:
    scripted = EmbeddingServer()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.port = listening.sockets[0].getsockname()[1]
    yield scripted
    listening.close()
    await listening.wait_closed()


@pytest.fixture
async def make(server: EmbeddingServer) -> AsyncIterator[Callable[..., RemoteEmbeddings]]:
    """Makes a provider that asks the server without pauses between attempts."""
    made: list[RemoteEmbeddings] = []

    def provider(**options: Any) -> RemoteEmbeddings:
        limits = Limits(
            documents=RetryPolicy(max_retries=2, backoff_s=0),
            query=RetryPolicy(max_retries=1, backoff_s=0, longest_wait_s=2),
            **options.pop("limits", {}),
        )
        headers = options.pop("headers", {})
        made.append(
            RemoteEmbeddings(
                "lab",
                "tiny",
                options.pop("protocol", protocols.OPENAI),
                Server(base_url=options.pop("url", server.url), api_key=KEY, headers=headers),
                limits=limits,
                **options,
            )
        )
        return made[-1]

    yield provider
    for each in made:
        await each.close()


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., EmbeddingContext]:
    def make_context(provider_id: str, **values: Any) -> EmbeddingContext:
        return EmbeddingContext(
            provider_id=provider_id,
            home=tmp_path,
            logger=logging.getLogger("hermitcrab.memory"),
            **values,
        )

    return make_context


@pytest.fixture
def answers() -> Any:
    """The class of answers, and the usual answer to texts."""

    class Answers:
        Answer = Answer
        data = staticmethod(data)
        vector_of = staticmethod(vector_of)
        KEY = KEY

    return Answers
