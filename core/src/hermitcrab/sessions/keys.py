"""Session keys: the structured address of a conversation (sessions 1).

A stored key is ``agent:<agentId>:<rest>``, such as ``agent:main:main`` or ``agent:main:telegram:direct:123``. Keys are
compared in lower case, except for opaque ids that a channel owns.
"""

from __future__ import annotations

import re
from typing import Literal

from attrs import frozen

from hermitcrab.errors import SessionKeyError

DEFAULT_AGENT = "main"
DEFAULT_MAIN_KEY = "main"
DEFAULT_ACCOUNT = "default"
#: Keys that belong to no agent.
GLOBAL_KEY = "global"
SENTINELS = frozenset({GLOBAL_KEY, "unknown"})

ChatType = Literal["direct", "group", "channel", "unknown"]
KeyShape = Literal["missing", "agent", "malformed_agent", "legacy_or_alias"]
DirectScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
GroupScope = Literal["per-group", "main"]
SessionScope = Literal["per-sender", "global"]

_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Ids that a channel owns and that tell upper from lower case: Signal groups, and all behind a Matrix room's kind.
_OPAQUE_ID = re.compile(
    r"(?P<head>(?:agent:[^:]*:)?(?:signal:group:(?=[^:]+(?:$|:))|matrix:(?:channel|group):))(?P<id>.+)",
    re.IGNORECASE | re.DOTALL,
)
_CRON_RUN = re.compile(r"(?P<job>(?:agent:[^:]+:)?cron:[^:]+):run:(?P<run>[^:]+)")
_RESERVED_ACCOUNTS = frozenset({"__proto__", "prototype", "constructor"})
_KINDS: dict[str, ChatType] = {
    "direct": "direct",
    "dm": "direct",
    "group": "group",
    "channel": "channel",
}
_NOT_PRIVATE_PREFIXES = ("subagent:", "cron:", "hook:", "acp:")


@frozen
class AgentKey:
    """A parsed key: the agent that it belongs to, and the rest behind it."""

    agent_id: str
    rest: str

    def __str__(self) -> str:
        return f"agent:{self.agent_id}:{self.rest}"


def fold(text: str) -> str:
    """Trim and lower-case."""
    return text.strip().lower()


def fold_key(key: str) -> str:
    """Trim and lower-case a key or its rest, except ids that a channel owns (sessions 1.5, version C)."""
    key = key.strip()
    match = _OPAQUE_ID.fullmatch(key)
    if match is None:
        return key.lower()
    head, opaque = match["head"].lower(), match["id"]
    if "signal:" in head:
        opaque, colon, behind = opaque.partition(":")
        return head + opaque + colon + behind.lower()
    return head + re.sub(":thread:", ":thread:", opaque, flags=re.IGNORECASE)


def normalise_agent_id(text: str) -> str:
    """A valid agent id for any text (sessions 1.1); an empty one is ``main``."""
    return _sanitise(text, DEFAULT_AGENT)


def normalise_account_id(text: str) -> str:
    """A valid account id for any text; an empty or reserved one is ``default``."""
    folded = fold(text)
    return DEFAULT_ACCOUNT if folded in _RESERVED_ACCOUNTS else _sanitise(text, DEFAULT_ACCOUNT)


def _sanitise(text: str, fallback: str) -> str:
    folded = fold(text)
    if _AGENT_ID.fullmatch(folded):
        return folded
    # The first character of a valid id is a letter or a digit, so a leading underscore goes too.
    cleaned = re.sub(r"[^a-z0-9_-]+", "-", folded).lstrip("-_").rstrip("-")
    return cleaned[:64].rstrip("-") or fallback


def is_session_id(text: str) -> bool:
    """Whether a text is safe as the file name of a session."""
    return _SESSION_ID.fullmatch(text) is not None


def check_session_id(session_id: str) -> str:
    """The session id, if it is safe as a file name.

    :raises SessionKeyError: if it is not.
    """
    if not is_session_id(session_id):
        raise SessionKeyError(
            f"invalid session id {session_id!r}",
            hint="Use 1 to 128 letters, digits, dots, hyphens and underscores, the first a letter or digit.",
        )
    return session_id


def parse_agent_key(key: str) -> AgentKey | None:
    """Split ``agent:<id>:<rest>``; ``None`` if the key does not have that form (sessions 1.5, version C)."""
    parts = key.strip().split(":", 2)
    if len(parts) < 3 or parts[0].lower() != "agent" or not _AGENT_ID.fullmatch(parts[1]):
        return None
    rest = fold_key(parts[2])
    return AgentKey(parts[1].lower(), rest) if rest and not rest.startswith(":") else None


def classify(key: str) -> KeyShape:
    """The shape of a key: blank, agent-scoped, broken, or something that :func:`to_store_key` must scope."""
    if not key.strip():
        return "missing"
    if parse_agent_key(key) is not None:
        return "agent"
    return "malformed_agent" if fold(key).startswith("agent:") else "legacy_or_alias"


def to_store_key(
    key: str,
    *,
    agent_id: str = DEFAULT_AGENT,
    main_key: str = DEFAULT_MAIN_KEY,
    scope: SessionScope = "per-sender",
) -> str:
    """The key under which a session is stored, for what a caller may write: ``main``, ``cron:x``, a whole key.

    Under the scope ``global`` an agent's main session is the one that all share (sessions 1.4).

    :raises SessionKeyError: if no well-formed key comes out of it.
    """
    folded = fold_key(key)
    main = fold(main_key) or DEFAULT_MAIN_KEY
    if folded in SENTINELS:
        return folded
    parsed = parse_agent_key(folded)
    if parsed is None and not folded.startswith("agent:"):
        parsed = parse_agent_key(str(AgentKey(normalise_agent_id(agent_id), folded or main)))
    if parsed is None:
        raise SessionKeyError(
            f"malformed session key {key!r}",
            hint="Write agent:<agentId>:<rest>, such as agent:main:main.",
        )
    if parsed.rest in {DEFAULT_MAIN_KEY, main}:
        parsed = AgentKey(parsed.agent_id, main)
        if scope == "global":
            return GLOBAL_KEY
    return str(parsed)


def agent_id_of(key: str, default: str = DEFAULT_AGENT) -> str:
    """The agent that a key belongs to; ``default`` has the keys without one."""
    parsed = parse_agent_key(key)
    return default if parsed is None else parsed.agent_id


def _rest(key: str) -> str:
    parsed = parse_agent_key(key)
    return fold_key(key) if parsed is None else parsed.rest


def is_subagent(key: str) -> bool:
    """Whether a key belongs to a session that another one has started."""
    return subagent_depth(key) > 0


def subagent_depth(key: str) -> int:
    """How many sessions stand above this one: 0 for one that a user talks to (sessions 1.5, version C)."""
    parts = _rest(key).split(":")
    return sum(part == "subagent" for part in parts[:-1])


def subagent_key(parent: str, agent_id: str, unique: str) -> str:
    """The key of a subagent's session; one that a subagent starts has its own chain in front (sessions 1.2)."""
    chain = f"{_rest(parent)}:" if is_subagent(parent) else ""
    return str(AgentKey(agent_id, f"{chain}subagent:{unique}"))


def is_cron(key: str) -> bool:
    """Whether a key belongs to a scheduled job, or to one run of it."""
    return _rest(key).startswith("cron:")


def split_cron_run(key: str) -> tuple[str, str | None]:
    """The key of a job and the run's id; a key of any other shape is returned as it is, without a run."""
    match = _CRON_RUN.fullmatch(key)
    return (key, None) if match is None else (match["job"], match["run"])


def thread_parent(key: str) -> str | None:
    """The key before the last ``:thread:`` marker, or ``None``."""
    head, marker, _ = key.rpartition(":thread:")
    return head if marker and head else None


def chat_type(key: str) -> ChatType:
    """The chat type that the structure of a key tells; an ambiguous key is ``unknown`` (sessions 1.6, version C)."""
    found = _possible_types(key)
    return found.pop() if len(found) == 1 else "unknown"


def channel_of(key: str) -> str | None:
    """The channel that the structure of a key names; ``None`` where it names none, or may mean more than one thing."""
    parts = _rest(thread_parent(key) or key).split(":")
    is_chat = chat_type(key) != "unknown" and parts[0] not in {"direct", "dm"}
    return parts[0] if is_chat else None


def is_ambiguous(key: str) -> bool:
    """Whether the structure of a key could mean chats of more than one type."""
    return len(_possible_types(key)) > 1


def _possible_types(key: str) -> set[ChatType]:
    parts = _rest(thread_parent(key) or key).split(":")
    found: set[ChatType] = set()
    if len(parts) >= 2 and parts[0] in {"direct", "dm"} and any(parts[1:]):
        found.add("direct")
    if len(parts) >= 3 and parts[1] in _KINDS and all(parts[:1]) and any(parts[2:]):
        found.add(_KINDS[parts[1]])
    if len(parts) >= 4 and parts[2] in _KINDS and all(parts[:2]) and any(parts[3:]):
        found.add(_KINDS[parts[2]])
    return found


def is_private(key: str) -> bool:
    """Whether a session is a private conversation with its user, so that ``MEMORY.md`` may be shown (memory 1.3)."""
    if classify(key) == "malformed_agent" or fold(key) in SENTINELS:
        return False
    rest = _rest(key)
    if rest.startswith(_NOT_PRIVATE_PREFIXES) or ":subagent:" in rest:
        return False
    return not ({"group", "channel", "thread", "topic"} & set(rest.split(":")))
