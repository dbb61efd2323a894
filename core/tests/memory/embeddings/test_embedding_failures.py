"""What happens when a provider fails: tried again, final, or typed; never hidden, never with a secret (memory 5.5)."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from hermitcrab.errors import EmbeddingError, MemoryBackendError

RATE_LIMIT = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}


async def failure_of(call) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize(("body", "status"), [(RATE_LIMIT, 429), ("down", 500), ("", 503)])
async def test_what_may_pass_is_tried_again(make, server, answers, body, status):
    """C85."""
    server.script += [answers.Answer(body, status=status)] * 2
    assert len(await make().embed_documents(["a"])) == 1
    assert len(server.received) == 3


async def test_attempts_end(make, server, answers):
    server.respond = lambda received: answers.Answer(RATE_LIMIT, status=429)
    error = await failure_of(make().embed_documents(["a"]))
    assert error.kind == "transient"
    assert isinstance(error, MemoryBackendError)
    assert len(server.received) == 3


async def test_a_pause_that_the_provider_asks_for_is_kept(make, server, answers):
    """C85."""
    server.script.append(answers.Answer(RATE_LIMIT, 429, {"Retry-After-Ms": "300"}))
    clock = asyncio.get_running_loop().time
    before = clock()
    await make().embed_documents(["a"])
    assert clock() - before >= 0.3
    assert len(server.received) == 2


async def test_a_pause_that_is_too_long_is_told_and_not_waited_for(make, server, answers):
    server.respond = lambda received: answers.Answer(RATE_LIMIT, 429, {"Retry-After": "3600"})
    error = await failure_of(make().embed_documents(["a"]))
    assert error.retry_after_s == 3600
    assert len(server.received) == 1
    assert (await failure_of(make().embed_query("a"))).retry_after_s == 3600


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (QUOTA, 429),
        ({"error": "billing"}, 402),
        ({"error": {"message": "quota exceeded"}}, 403),
    ],
)
async def test_a_used_up_quota_is_final(make, server, answers, body, status):
    """C88, pitfall 22: quota errors were retried for ever and cost money."""
    server.respond = lambda received: answers.Answer(body, status=status)
    error = await failure_of(make().embed_documents(["a"]))
    assert error.kind == "quota"
    assert "quota" in str(error)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "auth"), (403, "auth"), (400, "request"), (404, "request"), (301, "request")],
)
async def test_a_refusal_is_final(make, server, answers, status, kind):
    server.respond = lambda received: answers.Answer({"error": "no"}, status=status)
    assert (await failure_of(make().embed_query("a"))).kind == kind
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "body",
    [
        "<html>Welcome</html>",
        "",
        "[" * 100_000,
        [],
        {},
        {"data": None},
        {"data": [1]},
        {"data": [{"index": 0}]},
        {"data": [{"index": 0, "embedding": "AAAA"}]},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": ["0.5", "0.5", "0.5"]}]},
        {"data": [{"index": 0, "embedding": [0.5, None, 0.5]}]},
        {"data": [{"index": 0, "embedding": {"0": 1}}]},
        '{"data": [{"index": 0, "embedding": [NaN, 1, 1]}]}',
        '{"data": [{"index": 0, "embedding": [1e999, 1, 1]}]}',
        {"data": [{"index": 0, "embedding": [1, 2]}]},
        {"data": [{"index": 0, "embedding": [1, 2, 3, 4]}]},
        {"data": []},
        {"data": [{"index": n, "embedding": [1, 2, 3]} for n in range(2)]},
        {"data": [{"index": 5, "embedding": [1, 2, 3]}]},
    ],
    ids=range(20),
)
async def test_an_answer_that_is_not_the_vectors_is_a_typed_error(make, server, answers, body):
    """Pitfall 35: a wrong length must not reach an index."""
    server.respond = lambda received: answers.Answer(body)
    provider = make(dimensions=3)
    assert (await failure_of(provider.embed_documents(["a"]))).kind == "answer"
    assert (await failure_of(provider.embed_query("a"))).kind == "answer"
    assert len(str(await failure_of(provider.embed_query("a")))) < 1000


async def test_the_first_answer_fixes_how_long_vectors_are(make, server, answers):
    """C83."""
    provider = make()
    assert provider.dims == 0
    await provider.embed_documents(["a"])
    assert provider.dims == 3
    server.respond = lambda received: answers.Answer({"data": [{"embedding": [1, 2]}]})
    assert (await failure_of(provider.embed_query("a"))).kind == "answer"
    assert provider.dims == 3


async def test_a_silent_server_is_given_up_and_not_asked_again(make, server, answers):
    server.respond = lambda received: answers.Answer({}, delay_s=30)
    provider = make(limits={"query_timeout_s": 0.1, "batch_timeout_s": 0.1})
    for call in (provider.embed_query("a"), provider.embed_documents(["a"])):
        server.abandoned.clear()
        error = await failure_of(call)
        assert error.kind == "transient"
        assert "0.1 s" in str(error)
        async with asyncio.timeout(10):
            await server.abandoned.wait()
    assert len(server.received) == 2


async def test_a_query_with_its_retries_keeps_its_deadline(make, server, answers):
    server.respond = lambda received: answers.Answer(RATE_LIMIT, 429, {"Retry-After": "1.5"})
    error = await failure_of(make(limits={"query_timeout_s": 0.2}).embed_query("a"))
    assert "no answer within 0.2 s" in str(error)


async def test_cancelling_closes_the_request(make, server, answers):
    server.respond = lambda received: answers.Answer({}, delay_s=30)
    provider = make()
    for call in (provider.embed_query("a"), provider.embed_documents(["a", "b"])):
        server.arrived.clear()
        server.abandoned.clear()
        task = asyncio.ensure_future(call)
        async with asyncio.timeout(10):
            await server.arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.abandoned.wait()


async def test_a_server_that_is_not_there_is_named_by_its_setting(make):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = await failure_of(
            make(url=f"http://127.0.0.1:{unused.getsockname()[1]}").embed_query("a")
        )
    assert error.kind == "transient"
    assert "memorySearch.remote.baseUrl" in str(error)


async def test_an_address_that_is_none_is_a_refused_request(make):
    assert (await failure_of(make(url="ftp://127.0.0.1").embed_query("a"))).kind == "request"


async def test_a_provider_works_again_without_being_made_again(make, server, answers):
    server.script += [answers.Answer(QUOTA, status=429), answers.Answer("garbage")]
    provider = make()
    await failure_of(provider.embed_query("a"))
    await failure_of(provider.embed_query("a"))
    assert len(await provider.embed_query("a")) == 3


@pytest.mark.parametrize("status", [200, 400, 401, 403, 429, 500])
async def test_secrets_stand_in_no_error_and_no_log(make, server, answers, caplog, status):
    """A provider that repeats the request in its error does not spread the key."""
    token = "proxy-token-987654"
    server.respond = lambda received: answers.Answer(
        {"error": {"message": f"bad: {dict(received.headers)}"}}, status=status
    )
    provider = make(headers={"X-Proxy": token})
    with caplog.at_level(logging.DEBUG, logger="hermitcrab"):
        error = await failure_of(provider.embed_documents(["a"]))
    told = f"{error} {error!r} {error.__cause__!r} {caplog.text} {provider.fingerprint()} "
    told += repr(vars(provider)["_server"])
    assert "bad:" in str(error)
    assert answers.KEY not in told
    assert token not in told
