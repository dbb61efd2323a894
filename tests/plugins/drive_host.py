"""Runs one message through a host in the interpreter at hand and prints what came of it as JSON.

Usage: python drive_host.py HOME MESSAGE
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from hermitcrab import Host
from hermitcrab.messages import assistant
from hermitcrab.models import ChatModel, ChatReply


class Echo(ChatModel):
    """Answers with the number of messages that it sees, and remembers the last request."""

    id = "echo/model"
    request = None

    async def complete(self, request):
        self.request = request
        return ChatReply(message=assistant(f"I see {len(request.messages)} messages."))

    async def context_window(self):
        return 32_000


async def main(home: Path, message: str) -> None:
    model = Echo()
    async with Host.open(home=home, model=model) as host:
        reply = await host.send("agent:main:main", message)
        records = {
            name: {"status": record.status, "reason": record.reason, "error": record.error}
            for name, record in host.plugins.records.items()
        }
        diagnostics = [
            {"level": each.level, "plugin": each.plugin_id, "text": str(each)}
            for each in host.plugins.diagnostics
        ]
    asked = model.request
    report = {
        "text": reply.text,
        "engine": reply.engine,
        "degraded": list(reply.degraded),
        "system": asked.system if asked else None,
        "messages": list(asked.messages) if asked else None,
        "records": records,
        "diagnostics": diagnostics,
        "imported": sorted(name for name in sys.modules if name.startswith("crab_")),
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
