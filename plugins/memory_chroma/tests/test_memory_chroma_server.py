"""A Chroma server that goes away, comes back, is another program, or is too old."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hermitcrab.errors import MemoryBackendError
from hermitcrab_memory_chroma.connection import CollectionSpec
from hermitcrab_memory_chroma.failures import ChromaAwayError, ChromaRefusedError, ChromaSlowError
from hermitcrab_memory_chroma.server import ServerConnection
from hermitcrab_memory_chroma.settings import ChromaConfig

BEAT = {"nanosecond heartbeat": 1}


@contextmanager
def http_server(answers: Mapping[str, tuple[int, Any]], *, wait_s: float = 0.0) -> Iterator[Any]:
    """Anything that speaks HTTP: paths to status and JSON; yields the port and the requests that it got."""
    requests: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, dict(self.headers)))
            time.sleep(wait_s)
            status, body = answers.get(self.path, (404, "<html>not here</html>"))
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1], requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def connection(port: int, **more: Any) -> ServerConnection:
    config = ChromaConfig(mode="server", host="127.0.0.1", port=port, **more)
    return ServerConnection(config)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "not a Chroma server"),
        ({"/api/v2/heartbeat": (200, "<html>hello</html>")}, "not a Chroma server"),
        ({"/api/v2/heartbeat": (200, {"ok": True})}, "not a Chroma server"),
        ({"/api/v2/heartbeat": (200, ["nanosecond heartbeat"])}, "not a Chroma server"),
        ({"/api/v1/heartbeat": (200, BEAT)}, "too old"),
        (
            {"/api/v2/heartbeat": (200, BEAT), "/api/v2/version": (200, "0.6.3")},
            "0.6.3",
        ),
        (
            {"/api/v2/heartbeat": (200, BEAT), "/api/v2/version": (200, json.dumps("0.6.3"))},
            "version is '0.6.3'",
        ),
        (
            {"/api/v2/heartbeat": (200, BEAT), "/api/v2/version": (200, json.dumps("2.0.0"))},
            "2.0.0",
        ),
        ({"/api/v2/heartbeat": (200, BEAT), "/api/v2/version": (200, {"a": 1})}, "version"),
        ({"/api/v2/heartbeat": (401, {"error": "AuthError"})}, "credentials"),
        (
            {"/api/v2/heartbeat": (200, BEAT), "/api/v2/version": (200, json.dumps("1.0.0"))},
            "tenant 'default_tenant'",
        ),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_with_what_to_do(
    answers: Mapping[str, tuple[int, Any]], said: str
) -> None:
    with http_server(answers) as (port, _):
        chroma = connection(port)
        with pytest.raises(ChromaRefusedError, match=said) as refused:
            await chroma.names()
        await chroma.close()
    assert refused.value.hint
    assert refused.value.where == f"http://127.0.0.1:{port}"


async def test_a_server_that_does_not_answer_is_given_up_within_the_deadline() -> None:
    with http_server({}, wait_s=1.5) as (port, _):
        chroma = connection(port, timeout_seconds=0.5)
        started = time.monotonic()
        with pytest.raises(ChromaAwayError):
            await chroma.names()
        assert time.monotonic() - started < 10
        await chroma.close()


async def test_a_slow_request_is_given_up_once_and_not_sent_again(chroma_server: Any) -> None:
    """A second attempt would double the time that a turn waits."""
    chroma = connection(chroma_server.port, timeout_seconds=0.5)
    attempts: list[object] = []

    async def work(api: Any) -> None:
        attempts.append(api)
        await asyncio.sleep(30)

    await chroma.names()
    with pytest.raises(ChromaSlowError, match=r"within 0\.5 s"):
        await chroma._run(work)
    assert len(attempts) == 1
    await chroma.close()


async def test_nobody_is_asked_again_during_the_pause_after_a_failure() -> None:
    """Each search would otherwise wait for the connection timeout of a machine that is down."""
    now = [0.0]
    config = ChromaConfig(mode="server", host="127.0.0.1", port=1)
    chroma = ServerConnection(config, clock=lambda: now[0])
    for pause in (0.25, 0.5, 1.0):
        with pytest.raises(ChromaAwayError) as first:
            await chroma.names()
        assert "a moment ago" not in str(first.value)
        now[0] += pause * 0.9
        with pytest.raises(ChromaAwayError, match="a moment ago") as second:
            await chroma.names()
        assert "chroma run" in str(second.value.hint)
        now[0] += pause * 0.2


async def test_headers_go_to_their_own_server_and_nowhere_else() -> None:
    """Chroma's own client sends the headers of the first server of a process to all of them."""
    with http_server({}) as (first_port, first), http_server({}) as (second_port, second):
        for port, token in ((first_port, "one"), (second_port, "two")):
            chroma = connection(port, headers={"X-Chroma-Token": token})
            with pytest.raises(ChromaRefusedError) as refused:
                await chroma.names()
            assert token not in str(refused.value)
            await chroma.close()
    assert {headers["x-chroma-token"] for headers in _lowered(first)} == {"one"}
    assert {headers["x-chroma-token"] for headers in _lowered(second)} == {"two"}


async def test_status_shows_no_header(chroma_server: Any) -> None:
    chroma = connection(chroma_server.port, headers={"Authorization": "Bearer very-secret"})
    await chroma.names()
    assert "very-secret" not in f"{chroma.status()} {chroma._config}"
    assert chroma.status().version is not None
    await chroma.close()


async def test_a_killed_server_that_comes_back_is_found_again_without_a_restart(
    mortal_server: Any,
) -> None:
    mortal_server.start()
    spec = CollectionSpec(name="some-rows")
    chroma = connection(mortal_server.port)
    await chroma.call(spec, "upsert", ids=["a"], embeddings=[[1.0]], documents=["first"])
    mortal_server.kill()
    with pytest.raises(ChromaAwayError, match="does not answer"):
        await chroma.call(spec, "get")
    assert chroma.status().last_error is not None
    mortal_server.start()
    rows = await _until_back(lambda: chroma.call(spec, "get"))
    assert rows["documents"] == ["first"]
    assert chroma.status().reconnects == 1
    assert chroma.status().last_error is None
    await chroma.close()


async def test_a_server_that_was_restarted_between_two_calls_is_not_noticed(
    mortal_server: Any,
) -> None:
    mortal_server.start()
    spec = CollectionSpec(name="some-rows")
    chroma = connection(mortal_server.port)
    await chroma.call(spec, "upsert", ids=["a"], embeddings=[[1.0]], documents=["first"])
    mortal_server.kill()
    mortal_server.start()
    assert await chroma.call(spec, "count") == 1
    await chroma.close()


async def test_a_collection_that_someone_deleted_is_made_anew(chroma_server: Any) -> None:
    spec = CollectionSpec(name="comes-and-goes")
    first, second = connection(chroma_server.port), connection(chroma_server.port)
    await first.call(spec, "upsert", ids=["a"], embeddings=[[1.0]], documents=["x"])
    assert await second.drop(spec.name) is True
    assert await second.drop(spec.name) is False
    assert await first.call(spec, "get", create=False) is None
    await first.call(spec, "upsert", ids=["b"], embeddings=[[1.0]], documents=["y"])
    assert await second.call(spec, "count") == 1
    await first.close()
    await second.close()


async def test_vectors_of_another_length_are_refused_in_words(chroma_server: Any) -> None:
    """C83: mixed vectors."""
    spec = CollectionSpec(name="of-two-dimensions")
    chroma = connection(chroma_server.port)
    await chroma.call(spec, "upsert", ids=["a"], embeddings=[[1.0, 0.0]])
    with pytest.raises(MemoryBackendError, match="do not fit"):
        await chroma.call(spec, "upsert", ids=["b"], embeddings=[[1.0]])
    assert await chroma.call(spec, "count") == 1
    await chroma.close()


async def _until_back(ask: Callable[[], Any]) -> Any:
    for _ in range(200):
        try:
            return await ask()
        except ChromaAwayError:
            await asyncio.sleep(0.1)
    raise AssertionError("the server is not found again")


def _lowered(requests: list[tuple[str, dict[str, str]]]) -> list[dict[str, str]]:
    return [{name.lower(): value for name, value in headers.items()} for _, headers in requests]
