"""Moving about in the tree of a session, and writing into it what is no message (context 9.2, sessions 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hermitcrab.errors import TranscriptError
from hermitcrab.models.resolve import ModelSpec
from hermitcrab.sessions.format import Entry
from hermitcrab.sessions.log import SessionLog
from hermitcrab.sessions.model_override import selection
from hermitcrab.sessions.tree import (
    ROOT,
    Labels,
    PathSettings,
    TranscriptTree,
    labels_on,
    name_on,
    settings_on,
    transcript_tree,
)

#: Custom types that begin like this are the host's own.
_OWN_TYPES = "hermitcrab."


class SessionTree:
    """The tree of one session. Everything is appended; nothing that stands in the transcript changes."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log

    # -- branches -----------------------------------------------------------------------------

    async def branch_to(self, entry_id: str | None) -> None:
        """Let the next entry follow this one; ``None`` is the place before the first.

        :raises TranscriptError: if the transcript has no such entry.
        """
        await self._branch(entry_id, ())

    async def branch_with_summary(
        self, entry_id: str | None, summary: str, *, details: Mapping[str, Any] | None = None
    ) -> Entry:
        """Branch, and tell the model what happened on the branch that is left.

        :raises TranscriptError: if the transcript has no such entry.
        """
        values: dict[str, Any] = {"fromId": entry_id or ROOT, "summary": summary}
        if details is not None:
            values["details"] = dict(details)
        entry = self._log.new_entry("branch_summary", **values)
        written = await self._branch(entry_id, (entry,))
        return written[-1]

    async def tree(self) -> TranscriptTree:
        """All branches; this reads the whole transcript."""
        return transcript_tree((await self._log.read_all()).entries)

    async def _branch(self, target: str | None, behind: Sequence[Entry]) -> Sequence[Entry]:
        await self._check(target)
        log = self._log

        def make(leaf_id: str | None, found: Sequence[Entry]) -> Sequence[Entry]:
            move = [] if leaf_id == target else [log.new_entry("leaf", targetId=target)]
            return [*move, *behind]

        result = await log.append_decided(make, purpose="branch")
        await self._reopen_flush()
        return result.written

    async def _reopen_flush(self) -> None:
        """What the flush of this cycle saw last is on a branch that was left, so it has not seen this one."""
        entry = self._log.entry
        seen = entry.flushed_entry_id
        if seen is not None and all(each["id"] != seen for each in self._log.path):
            await self._log.update_entry(
                policy="preserve-activity", flushed_cycle=None, flushed_entry_id=None
            )

    async def _check(self, entry_id: str | None) -> None:
        """Refuse an id that no entry of the transcript has."""
        if entry_id is None or any(entry["id"] == entry_id for entry in self._log.path):
            return
        contents = await self._log.read_all()
        if not any(entry["id"] == entry_id for entry in contents.entries):
            raise TranscriptError(
                f"there is no entry {entry_id!r} in this transcript",
                where=self._log.file,
                hint=f"`hermitcrab sessions show {self._log.key} --tree` shows its branches.",
            )

    # -- labels, settings, name ---------------------------------------------------------------

    async def set_label(self, target_id: str, label: str | None) -> Entry:
        """Put a label on an entry, or take it away.

        :raises TranscriptError: if the transcript has no such entry.
        """
        await self._check(target_id)
        return await self._append("label", targetId=target_id, label=label or "")

    async def labels(self) -> Labels:
        """The labels that the active branch sets; this reads the whole transcript."""
        contents = await self._log.read_all()
        return labels_on(contents.branch(), {entry["id"] for entry in contents.entries})

    async def set_model(self, provider: str, model_id: str) -> Entry:
        """Choose the model of this session, in the transcript and in the session entry."""
        written = await self._append("model_change", provider=provider, modelId=model_id)
        chosen = ModelSpec(provider, model_id)
        await self._log.update_entry(**selection(self._log.entry, chosen))
        return written

    async def set_thinking_level(self, level: str) -> Entry:
        """Choose how much the model thinks, in the transcript and in the session entry."""
        written = await self._append("thinking_level_change", thinkingLevel=level)
        await self._log.update_entry(thinking_level=level)
        return written

    def settings(self) -> PathSettings:
        """What the active branch says; for what a compaction hides, what the session entry says (design 5)."""
        entry = self._log.entry
        before = PathSettings(
            provider=entry.provider_override,
            model_id=entry.model_override,
            thinking_level=entry.thinking_level,
        )
        return settings_on(self._log.path, before)

    async def set_session_name(self, name: str | None) -> Entry:
        """Name the session; ``None`` takes the name away."""
        return await self._append("session_info", name=name or "")

    async def session_name(self) -> str | None:
        """The name that the active branch gives the session; this reads the whole transcript."""
        return name_on((await self._log.read_all()).branch())

    # -- entries of plugins -------------------------------------------------------------------

    async def append_custom(self, custom_type: str, data: Any = None) -> Entry:
        """Keep data that the model does not see.

        :raises TranscriptError: if the type is one of the host's own.
        """
        self._check_type(custom_type)
        return await self._append("custom", customType=custom_type, data=data)

    async def append_custom_message(
        self,
        custom_type: str,
        content: str | Sequence[Mapping[str, Any]],
        *,
        display: bool = True,
        details: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Tell the model something as a user message that no user has written.

        :param display: whether people are shown it.
        :param details: data for those who show it; the model does not see them.
        :raises TranscriptError: if the type is one of the host's own.
        """
        self._check_type(custom_type)
        values: dict[str, Any] = {
            "customType": custom_type,
            "content": content if isinstance(content, str) else [dict(block) for block in content],
            "display": display,
        }
        if details is not None:
            values["details"] = dict(details)
        return await self._append("custom_message", **values)

    def _check_type(self, custom_type: str) -> None:
        if custom_type.startswith(_OWN_TYPES):
            raise TranscriptError(
                f"entries of type {custom_type!r} are written by hermitcrab itself",
                where=self._log.file,
                hint="Begin the type with the id of your plugin.",
            )

    async def _append(self, kind: str, **values: Any) -> Entry:
        [written] = await self._log.append([self._log.new_entry(kind, **values)])
        return written
