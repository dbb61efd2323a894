"""What ``hermitcrab memory status`` says of the embedding provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermitcrab.memory.contract import ProbeResult
    from hermitcrab.memory.embeddings.resolution import EmbeddingChoice


async def probed(choice: EmbeddingChoice) -> ProbeResult:
    """Whether the provider can work right now; without one, why there is none."""
    from hermitcrab.memory.contract import ProbeResult

    if choice.provider is None:
        return ProbeResult(ok=False, error=choice.problem or "no embedding provider is wanted")
    return await choice.provider.probe()


def embedding_fields(choice: EmbeddingChoice, probe: ProbeResult | None) -> list[tuple[str, str]]:
    """The lines for a person, as name and value."""
    provider = choice.provider
    if provider is None:
        fields = [("embeddings", f"none (asked for: {choice.requested})")]
    else:
        dims = f"{provider.dims} numbers" if provider.dims else "size not known yet"
        place = "another machine" if provider.remote else "this machine"
        fields = [("embeddings", f"{provider.id}/{provider.model}, {dims}, on {place}")]
    if probe is not None:
        fields.append(("probe", "ok" if probe.ok else f"failed: {probe.error}"))
    return fields


def embedding_warnings(choice: EmbeddingChoice) -> list[str]:
    """What a person should know of the choice."""
    switched = None if choice.provider is None else choice.provider.switch_reason
    return [each for each in (*choice.notes, choice.problem, switched) if each]


def embeddings_json(choice: EmbeddingChoice, probe: ProbeResult | None = None) -> dict[str, Any]:
    """The choice as JSON data (memory 2.3); batch jobs of providers do not exist here."""
    provider = choice.provider
    data: dict[str, Any] = {
        "requestedProvider": choice.requested,
        "provider": "none" if provider is None else provider.id,
        "model": None if provider is None else provider.model,
        "dims": None if provider is None else provider.dims or None,
        "remote": None if provider is None else provider.remote,
        "problem": choice.problem,
        "notes": list(choice.notes),
        "switched": None if provider is None else provider.switch_reason,
        "batch": {"enabled": False},
    }
    if probe is not None:
        data["probe"] = {"ok": probe.ok, "error": probe.error}
    return data
