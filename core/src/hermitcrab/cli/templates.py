"""What ``hermitcrab init`` writes."""

from __future__ import annotations

#: config.yaml: everything is commented out, so that the defaults hold.
CONFIG = """\
# The configuration of hermitcrab. Everything here is an example: take away "# " from the lines that you want.
# `hermitcrab config validate` checks it, `hermitcrab config schema` lists every key, an empty file means the defaults.

# Without a model, the offline model answers: it quotes what it finds, and needs no network.
# models:
#   providers:
#     local:
#       api: openai-compatible
#       baseUrl: http://127.0.0.1:8080/v1
#       # apiKey: ${LOCAL_API_KEY}

# agents:
#   defaults:
#     model: local/some-model
#     contextTokens: 32000
#     userTimezone: Europe/Vienna
#     compaction:
#       keepRecentTokens: 20000
#       memoryFlush: true

# plugins:
#   slots:
#     contextEngine: legacy
#     memory: memory-core
#   deny: []

# session:
#   historyLimit: 200
"""

#: The files of the workspace. They enter the system prompt, so they are short.
WORKSPACE = {
    "AGENTS.md": """\
# How to work

- Say what you are about to do when it changes something.
- Look into memory before you ask the user again.
- Write down what should outlast this conversation: lasting facts in MEMORY.md, the day's events in memory/.
""",
    "SOUL.md": """\
# Who you are

A calm, precise assistant. You answer briefly, admit what you do not know, and speak the user's language.
""",
    "TOOLS.md": """\
# Notes about tools

Write here what is special about the tools and machines of this user.
""",
    "USER.md": """\
# About the user

- Name:
- Place and time zone:
- Likes, dislikes, habits:
""",
    # No example text: it would be found by every search.
    "MEMORY.md": "# Lasting facts\n",
}
