"""Media and very large tool results in a whole system: small transcripts, models that see, nothing lost (design 5)."""

from __future__ import annotations

import base64
import json
import logging

import pytest

from hermitcrab import hookimpl
from hermitcrab.agent.tools import Tool
from hermitcrab.messages import assistant, to_openai, user
from hermitcrab.models import ToolSchema

MAIN = "agent:main:main"
DUMP = "".join(f"record {number}: there is nothing of note\n" for number in range(100_000))


def picture(number=0):
    data = base64.b64encode(bytes([number % 256]) * 20_000).decode()
    return {"type": "image", "mimeType": "image/png", "data": data}


def blobs_of(file):
    folder = file.with_name(f"{file.stem}.blobs")
    return sorted(folder.iterdir()) if folder.exists() else []


def images_in(request):
    return [
        block["data"]
        for message in request.messages
        for block in message["content"]
        if block["type"] == "image"
    ]


@pytest.fixture
def dumper(crab):
    """A plugin with a tool that returns 3 MB."""

    async def dump(arguments, context):
        return DUMP

    @hookimpl
    def register_tools(registry):
        registry.register("dump", Tool(ToolSchema("dump", "Dump.", {"type": "object"}), dump))

    return [("dumper", crab.plugin(register_tools))]


async def test_a_tool_that_returns_3_megabytes_leaves_a_small_transcript(crab, open_host, dumper):
    """C93: the view fits, the whole text is recoverable, also after a restart."""
    assert len(DUMP) > 3_000_000
    model = crab.ScriptedModel(crab.calling("dump"), "Nothing of note.")
    async with open_host(model, plugins=dumper) as host:
        reply = await host.send(MAIN, "What is in the dump?")
        file = (await host.session(MAIN)).file
        assert reply.text == "Nothing of note."
    assert file.stat().st_size < 30_000
    shown = json.dumps(to_openai(model.requests[1].messages))
    assert len(shown) < 40_000
    assert "record 0: there" in shown
    assert "record 99999: there" in shown
    assert "characters are left out here" in shown
    assert [blob.read_text() for blob in blobs_of(file)] == [DUMP]

    again = crab.ScriptedModel("Still nothing.")
    async with open_host(again, plugins=dumper) as host:
        await host.send(MAIN, "And now?")
        session = await host.session(MAIN)
        [result] = [each for each in session.messages if each["role"] == "toolResult"]
        assert (await session.restored(result))["content"][0]["text"] == DUMP
    sent = [json.dumps(each) for each in to_openai(again.requests[0].messages)]
    before = [json.dumps(each) for each in to_openai(model.requests[1].messages)]
    assert sent[: len(before)] == before, "what the model saw before is what it sees again"


async def test_a_model_sees_an_image_again_after_a_restart(crab, open_host):
    image = picture(7)
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        session = await host.session(MAIN)
        await session.append(user([{"type": "text", "text": "Look."}, image]))
        assert session.messages[0]["content"][1] == image
        context = await session.assemble()
        assert context.messages[0]["content"][1] == image
        await session.append(assistant("A picture."))
        await session.end_turn()
        file = session.file
    assert file.stat().st_size < 10_000
    async with open_host(model) as host:
        await host.send(MAIN, "What was it?")
        assert (await host.session(MAIN)).messages[0]["content"][1] == image
    assert images_in(model.requests[0]) == [image["data"]]
    [shown] = [
        part["image_url"]["url"]
        for message in to_openai(model.requests[0].messages)
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
    assert shown == f"data:image/png;base64,{image['data']}"


async def test_a_session_with_many_images_holds_none_of_them_in_memory(crab, open_host):
    async with open_host(crab.ScriptedModel(window=1_000_000)) as host:
        session = await host.session(MAIN)
        for number in range(200):
            await session.append(user([picture(number)]))
        await session.end_turn()
        held = json.dumps([item.message for item in session._context.log.items()])
        assert len(held) < 200 * 500
        context = await session.assemble()
        assert len({message["content"][0]["data"] for message in context.messages}) == 200


async def test_a_lost_image_costs_no_reply_and_is_reported_once(crab, open_host, caplog):
    model = crab.ScriptedModel("I see.", "No.", "No.")
    async with open_host(model) as host:
        session = await host.session(MAIN)
        await session.append(user([picture()]))
        await session.end_turn()
        [blob] = blobs_of(session.file)
        blob.unlink()
        caplog.set_level(logging.WARNING, "hermitcrab.sessions")
        for question in ("Do you see it?", "Now?"):
            assert (await host.send(MAIN, question)).text
    said = json.dumps(to_openai(model.requests[-1].messages))
    assert "[image, 20 KB: it stood here and cannot be read: its file is missing]" in said
    assert images_in(model.requests[-1]) == []
    assert caplog.text.count(blob.name) == 1


async def test_the_flush_sees_images_too(crab, open_host):
    """What a compaction removes must have been seen by the flush (design 7)."""
    seen = []

    class Watching(crab.ScriptedModel):
        async def complete(self, request):
            if request.purpose == "flush":
                seen.extend(images_in(request))
            return await super().complete(request)

    async with open_host(Watching()) as host:
        session = await host.session(MAIN)
        await session.append(user([picture(1)]))
        for number in range(6):
            await session.append(user(f"Fact {number}. " + "Words to fill the window. " * 800))
            await session.append(assistant("Noted."))
        await session.assemble()
    assert set(seen) == {picture(1)["data"]}


async def test_transcripts_with_inline_images_open_as_they_are(crab, open_host):
    """As the reference writes them; the file is left as it is."""
    image = picture(3)
    async with open_host(crab.ScriptedModel()) as host:
        await host.send(MAIN, "Hello")
        file = (await host.session(MAIN)).file
    entry = {
        "type": "message",
        "id": "0123abcd",
        "timestamp": "2026-03-01T12:00:00.000Z",
        "message": {"role": "user", "content": [image]},
    }
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")
    before = file.read_bytes()
    model = crab.ScriptedModel()
    async with open_host(model) as host:
        await host.send(MAIN, "And?")
    assert images_in(model.requests[0]) == [image["data"]]
    assert file.read_bytes().startswith(before)
    assert blobs_of(file) == []
