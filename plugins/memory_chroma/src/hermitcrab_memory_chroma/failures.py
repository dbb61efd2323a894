"""From what Chroma and the network raise to errors that say what to do."""

from __future__ import annotations

from pathlib import Path

from hermitcrab.errors import MemoryBackendError


class ChromaAwayError(MemoryBackendError):
    """The server does not answer; it is asked again after a while."""


class ChromaSlowError(ChromaAwayError):
    """The server took a request and did not answer it in time."""


class ChromaRefusedError(MemoryBackendError):
    """The server answers, and cannot be used as it is: another program, another version, no access."""


class FolderInUseError(MemoryBackendError):
    """Another process has the folder of an embedded Chroma open."""


class DimensionsError(MemoryBackendError):
    """Vectors have another number of dimensions than those in the collection."""


def away(address: str, reason: str) -> ChromaAwayError:
    """The server at ``address`` cannot be reached."""
    return ChromaAwayError(
        f"the Chroma server does not answer ({reason})",
        where=address,
        hint="Start it with `chroma run --path FOLDER --host HOST --port PORT`, or correct host and port under"
        " plugins.entries.memory-chroma.config; no restart is needed",
    )


def slow(address: str, timeout_s: float) -> ChromaSlowError:
    """The server at ``address`` did not answer within its deadline."""
    return ChromaSlowError(
        f"the Chroma server did not answer within {timeout_s:g} s",
        where=address,
        hint="See what it is busy with, or raise plugins.entries.memory-chroma.config.timeoutSeconds",
    )


def damaged(folder: Path, error: Exception) -> MemoryBackendError:
    """The folder of an embedded Chroma cannot be opened."""
    return MemoryBackendError(
        f"Chroma cannot open the folder ({' '.join(str(error).split())[:300]})",
        where=folder,
        hint="Make it readable and writable, or restore it from a backup; without one, move it away: files are then"
        " indexed again, and single memories can be imported with `hermitcrab ltm import`",
    )


def refused(where: str, error: Exception) -> MemoryBackendError:
    """What Chroma says of a request that it will not carry out."""
    text = " ".join(str(error).split())[:300]
    name = type(error).__name__
    if "dimension" in text.lower():
        return DimensionsError(
            f"the vectors do not fit the collection ({text})",
            where=where,
            hint="Run `hermitcrab ltm migrate` after a change of the embedding model",
        )
    if name in ("ChromaAuthError", "AuthorizationError"):
        return ChromaRefusedError(
            "the Chroma server refuses the credentials",
            where=where,
            hint="Correct plugins.entries.memory-chroma.config.headers",
        )
    return MemoryBackendError(
        f"Chroma refuses a request ({name}: {text})",
        where=where,
        hint="`hermitcrab memory status` shows the server's version and the counts",
    )
