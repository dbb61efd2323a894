"""The fields of a memory's status, each under its own name whatever the backend tells (memory 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermitcrab.memory.contract import MemoryStatus
    from hermitcrab.memory.embeddings.resolution import EmbeddingChoice

_WORDS_ALONE = "fts-only"


def report_fields(
    status: MemoryStatus,
    choice: EmbeddingChoice,
    *,
    workspace: Path,
    sources: Sequence[str],
    extra_paths: Sequence[str],
) -> dict[str, Any]:
    """The fields beside the counts. ``fallback`` is there only while something takes another's place.

    :param sources: what is to be indexed; each has its counts, zeros included.
    """
    details = status.details
    provider = choice.provider
    report = {
        "provider": "none" if provider is None else provider.id,
        "model": None if provider is None else provider.model,
        "requestedProvider": choice.requested,
        "workspaceDir": str(workspace),
        "dbPath": None if status.index_path is None else str(status.index_path),
        "sources": list(sources),
        "sourceCounts": _counts(status, sources),
        "extraPaths": list(extra_paths),
        "fts": {"enabled": True, "available": status.keyword_search, "error": None}
        | _mapping(details, "fts"),
        "vector": _vector(details, wanted=provider is not None),
        "cache": {"enabled": False, "entries": 0, "maxEntries": None} | _mapping(details, "cache"),
        "batch": {"enabled": False},
        "custom": {
            "searchMode": _WORDS_ALONE if status.mode == "keyword" else status.mode,
            "providerUnavailableReason": choice.problem,
            "indexIdentity": _mapping(details, "indexIdentity") or None,
        },
    }
    fallback = _fallback(details, choice)
    return report if fallback is None else {**report, "fallback": fallback}


def _counts(status: MemoryStatus, sources: Sequence[str]) -> list[dict[str, Any]]:
    told = {each["source"]: dict(each) for each in status.details.get("sourceCounts", ())}
    whole = {"files": status.files, "chunks": status.chunks}
    if not told and len(sources) == 1:
        return [{"source": sources[0], **whole}]
    return [told.get(each, {"source": each, "files": 0, "chunks": 0}) for each in sources]


def _vector(details: Mapping[str, Any], *, wanted: bool) -> dict[str, Any]:
    """``available`` is missing where nobody has looked yet."""
    vector = {"enabled": wanted, "dims": None, **_mapping(details, "vector")}
    if "lastError" in vector:
        vector["loadError"] = vector["lastError"]
    return vector


def _fallback(details: Mapping[str, Any], choice: EmbeddingChoice) -> dict[str, Any] | None:
    told = _mapping(details, "fallback")
    if told:
        return told
    switched = None if choice.provider is None else choice.provider.switch_reason
    return None if switched is None else {"from": choice.requested, "reason": switched}


def _mapping(details: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = details.get(name)
    return dict(value) if isinstance(value, Mapping) else {}
