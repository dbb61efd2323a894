"""The system prompt: an introduction, the workspace files, the tools and memory; rebuilt each turn (memory 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

#: The files that an agent's workspace may put into its system prompt, in order.
WORKSPACE_FILES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "USER.md")
#: Shown in private sessions only (memory 1.3).
PRIVATE_FILE = "MEMORY.md"
#: USER.md takes at most this many characters.
USER_FILE_CHARACTERS = 4_000
#: A file whose share of the total is smaller than this many characters is left out.
_LEAST_CHARACTERS = 64
#: Workspace files take at most this many characters for each token of the context window.
_CHARACTERS_PER_WINDOW_TOKEN = 1

INTRODUCTION = (
    "You are a personal assistant with a workspace of files and a memory that outlives this conversation. "
    "Answer in the language of the user. Be accurate and brief; say so when you do not know. "
    "When the user asks you to remember something, write it to a file."
)

SUBAGENT_ROLE = (
    "You are a subagent: another session has given you the task in the last message and waits for your answer. "
    "Do this task and nothing else. Nobody can be asked: where something is unclear, choose and say so. "
    "Your last message is handed back as the result; make it complete and understandable by itself, "
    "in the language of the task."
)


@frozen(kw_only=True)
class PromptParts:
    """What a system prompt is made of. Sizes are characters; ``window`` is the context window in tokens."""

    introduction: str
    role: str | None = None
    workspace: Path
    private: bool
    per_file: int
    total: int
    window: int
    tools: Sequence[str] = ()
    memory_section: str | None = None
    date_line: str | None = None


def build_system_prompt(parts: PromptParts) -> str:
    """The system prompt. Reads the workspace files: call it in a worker thread."""
    names = [*WORKSPACE_FILES, *([PRIVATE_FILE] if parts.private else [])]
    sections = [parts.introduction.strip(), parts.role or ""]
    if parts.tools:
        sections.append(f"Tools: {', '.join(parts.tools)}. Paths are relative to the workspace.")
    sections.append(parts.memory_section or "")
    sections.append(_workspace_section(parts, names))
    sections.append(parts.date_line or "")
    return "\n\n".join(section for section in sections if section.strip())


def _workspace_section(parts: PromptParts, names: Sequence[str]) -> str:
    left = min(parts.total, parts.window * _CHARACTERS_PER_WINDOW_TOKEN)
    blocks: list[str] = []
    missing: list[str] = []
    for name in names:
        text = _read(parts.workspace / name)
        if text is None:
            missing.append(name)
            continue
        cap = min(parts.per_file, left)
        if name == "USER.md":
            cap = min(cap, USER_FILE_CHARACTERS)
        if not text.strip() or cap < _LEAST_CHARACTERS:
            continue
        shown = cut_file(text.strip(), cap, name)
        left -= len(shown)
        blocks.append(f"### {name}\n{shown}")
    if not blocks:
        return ""
    if missing:
        blocks.append(f"Not there: {', '.join(missing)}.")
    return "\n\n".join(("## Workspace files", *blocks))


def _read(path: Path) -> str | None:
    """The text of a regular file; ``None`` where there is none. Links out of the workspace are not followed."""
    if path.is_symlink() or not path.is_file():
        return None
    return path.read_text(encoding="utf-8", errors="replace")


def cut_file(text: str, cap: int, name: str) -> str:
    """A file cut to ``cap`` characters: 70 % head, 20 % tail, and a marker (memory 1.2)."""
    if len(text) <= cap:
        return text
    head, tail = int(cap * 0.7), int(cap * 0.2)
    return f"{text[:head]}\n[… {len(text) - head - tail} characters of {name} left out …]\n{text[-tail:]}"
