"""``hermitcrab run``: one turn, for scripts."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from hermitcrab.cli.options import Settings, common_options, json_option, pass_settings

if TYPE_CHECKING:
    from hermitcrab.agent.events import Reply


@click.command("run")
@click.option("-m", "--message", required=True, help="What to say; - reads it from stdin.")
@click.option("--session", "key", default="main", show_default=True, help="The session key.")
@click.option("--model", help="The model to use, provider/name.")
@json_option
@common_options
@pass_settings
def run_command(
    settings: Settings, message: str, key: str, model: str | None, as_json: bool
) -> None:
    """Say one thing in a session and print the reply."""
    from hermitcrab.cli.output import print_json
    from hermitcrab.cli.running import run

    text = sys.stdin.read() if message == "-" else message
    if not text.strip():
        raise click.UsageError("The message is empty.")
    reply = run(_run(settings, key, text, model, shown=not as_json))
    if as_json:
        print_json(reply_json(reply))


async def _run(settings: Settings, key: str, text: str, model: str | None, *, shown: bool) -> Reply:
    from hermitcrab.agent.events import Reply
    from hermitcrab.cli.opening import open_host, warn_of_plugins
    from hermitcrab.cli.turn_output import output_for

    async with open_host(settings, model=model) as host:
        if not shown:
            return await host.send(key, text)
        warn_of_plugins(host)
        output = await output_for(host, key)
        async with aclosing(host.stream(key, text)) as events:
            async for event in events:
                output.show(event)
        assert isinstance(event, Reply)
        return event


def reply_json(reply: Reply) -> dict[str, Any]:
    """A reply as JSON data."""
    usage = reply.usage
    return {
        "text": reply.text,
        "silent": reply.silent,
        "stopped": reply.stopped,
        "sessionKey": reply.session_key,
        "sessionId": reply.session_id,
        "engine": reply.engine,
        "degraded": list(reply.degraded),
        "notes": list(reply.notes),
        "reasoning": reply.reasoning,
        "toolLines": list(reply.tool_lines),
        "usage": {
            "input": usage.input,
            "output": usage.output,
            "cacheRead": usage.cache_read,
            "cacheWrite": usage.cache_write,
        },
        "compactions": [outcome.record() for outcome in reply.compactions],
        "flushes": [
            {"path": each.path, "bytes": each.bytes_written, "error": each.error}
            for each in reply.flushes
        ],
    }
