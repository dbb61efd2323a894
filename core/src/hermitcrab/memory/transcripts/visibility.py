"""Which sessions' transcripts a session may see: pure decisions (memory 4.10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hermitcrab.sessions.keys import fold_key, is_private


def may_see(
    caller: str | None, key: str, parents: Mapping[str, str | None], *, across: bool = False
) -> bool:
    """Whether the session ``caller`` may be shown what was said in the session ``key`` of the same agent.

    It may see its own session, earlier generations under its key included, and those that it started, however far
    down (``parents`` names who started each session). Nothing else, unless the user has allowed it: with ``across``
    (``rememberAcrossConversations``) a private session also sees the agent's other private sessions, and these
    alone. So a group never sees a private conversation, nor a subagent that of its parent. Whoever has no session
    sees none.
    """
    if not caller:
        return False
    asking, asked = fold_key(caller), fold_key(key)
    if _is_below(asked, asking, parents):
        return True
    return across and is_private(asking) and is_private(asked)


def may_see_any(
    caller: str | None,
    keys: Iterable[str],
    parents: Mapping[str, str | None],
    *,
    across: bool = False,
) -> bool:
    """Whether ``caller`` may see one of the sessions that a transcript belongs to; of nobody's, it may not."""
    return any(may_see(caller, key, parents, across=across) for key in keys)


def _is_below(key: str, ancestor: str, parents: Mapping[str, str | None]) -> bool:
    """Whether ``key`` is ``ancestor``, or was started by it or by one that was."""
    passed: set[str] = set()
    current: str | None = key
    while current is not None and current not in passed:
        if current == ancestor:
            return True
        passed.add(current)
        started_by = parents.get(current)
        current = None if started_by is None else fold_key(started_by)
    return False
