"""Every exception that hermitcrab raises on purpose.

The tree::

    HermitcrabError
    ├── ConfigError (ValueError)        config.yaml: an unknown key, a wrong type, a value out of range
    ├── PluginError                     a plugin that cannot be loaded, or that two distributions claim
    │   └── HookError                   a gate hook that failed, so that what it guards is refused
    ├── ContextEngineError              a context engine that is missing or breaks its contract
    ├── SessionError
    │   ├── SessionKeyError (ValueError)    text that is not a session key, agent id or session id
    │   ├── SessionNotFoundError            no such session key
    │   ├── SessionLabelTakenError          another session has the label; carries its ``key``
    │   ├── SessionLockedError              another process held the transcript too long
    │   ├── SessionStateError               something that a session's state does not allow, such as a second turn
    │   ├── SpawnRefusedError               a subagent that may not start, or could not be prepared
    │   └── TranscriptError                 a transcript that cannot be read or written
    │       └── EntryError                  an entry that a transcript cannot hold
    ├── ModelError
    │   ├── ModelAuthError              the provider refused the credentials
    │   ├── ModelRateLimitError         too many requests; carries ``retry_after_s``
    │   ├── ModelOverflowError          the request is larger than the window; carries ``observed_tokens``
    │   ├── ModelUnavailableError       no answer or a server error
    │   │   └── ModelTimeoutError           no answer in time
    │   └── ModelRequestError           the provider calls the request malformed
    ├── CompactionError                 a compaction that could not be carried out
    ├── MemoryBackendError              a memory backend that failed
    │   └── EmbeddingError              an embedding provider that failed; carries its ``kind``
    └── ToolError                       a tool call that cannot be carried out
        └── PathRefusedError            a path outside the workspace

A message says what happened, ``where`` names the file, plugin or config path, ``hint`` says what to do next.
"""

from __future__ import annotations

from os import PathLike
from typing import Literal

__all__ = [
    "CompactionError",
    "ConfigError",
    "ContextEngineError",
    "EmbeddingError",
    "EntryError",
    "HermitcrabError",
    "HookError",
    "MemoryBackendError",
    "ModelAuthError",
    "ModelError",
    "ModelOverflowError",
    "ModelRateLimitError",
    "ModelRequestError",
    "ModelTimeoutError",
    "ModelUnavailableError",
    "PathRefusedError",
    "PluginError",
    "SessionError",
    "SessionKeyError",
    "SessionLabelTakenError",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionStateError",
    "SpawnRefusedError",
    "ToolError",
    "TranscriptError",
]


class HermitcrabError(Exception):
    """The base of the tree: what happened, where, and what to do next.

    :param message: what happened, one sentence without a final full stop.
    :param where: the file, plugin or config path concerned.
    :param hint: what the reader can do about it.
    """

    def __init__(
        self, message: str, *, where: str | PathLike[str] | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = None if where is None else str(where)
        self.hint = hint

    def __str__(self) -> str:
        text = self.message if self.where is None else f"{self.where}: {self.message}"
        return text if self.hint is None else f"{text}. {self.hint}"


class ConfigError(HermitcrabError, ValueError):
    """config.yaml has an unknown key, a wrong type or a value out of range."""


class PluginError(HermitcrabError):
    """A plugin cannot be loaded, validated or registered."""


class HookError(PluginError):
    """A gate hook failed or ran out of time, so what it guards is refused."""


class ContextEngineError(HermitcrabError):
    """A context engine is missing, broken or breaks its contract."""


class SessionError(HermitcrabError):
    """The base of everything that goes wrong with a session."""


class SessionKeyError(SessionError, ValueError):
    """A text is not a valid session key, agent id or session id."""


class SessionNotFoundError(SessionError, LookupError):
    """There is no session under this key."""


class SessionLabelTakenError(SessionError):
    """Another session has the label.

    :param key: the session that has it.
    """

    def __init__(
        self,
        message: str,
        *,
        key: str,
        where: str | PathLike[str] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.key = key


class SessionLockedError(SessionError, TimeoutError):
    """Another process held the transcript longer than we were willing to wait."""


class SessionStateError(SessionError):
    """The state of a session does not allow this, such as a second turn while one runs."""


class SpawnRefusedError(SessionError):
    """A subagent may not start, or its start could not be prepared; nothing was left behind."""


class TranscriptError(SessionError):
    """A transcript cannot be read or written."""


class EntryError(TranscriptError):
    """An entry holds what JSON cannot express; neither it nor what was to be written with it is on disk."""


class ModelError(HermitcrabError):
    """The base of everything that a chat model can fail with."""


class ModelAuthError(ModelError):
    """The provider refused the credentials."""


class ModelRateLimitError(ModelError):
    """The provider asks for fewer requests.

    :param retry_after_s: seconds that the provider asked us to wait, where it said so.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | PathLike[str] | None = None,
        hint: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.retry_after_s = retry_after_s


class ModelOverflowError(ModelError):
    """The request is larger than the model's context window.

    :param observed_tokens: how large the request is by the provider's count, where it said so.
    """

    def __init__(
        self,
        message: str,
        *,
        where: str | PathLike[str] | None = None,
        hint: str | None = None,
        observed_tokens: int | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.observed_tokens = observed_tokens


class ModelUnavailableError(ModelError):
    """No answer from the provider: a timeout, a broken connection or a server error."""


class ModelTimeoutError(ModelUnavailableError):
    """The provider took a request and did not answer it in time."""


class ModelRequestError(ModelError):
    """The provider calls the request malformed."""


class CompactionError(HermitcrabError):
    """A compaction could not be carried out; the history is untouched."""


class MemoryBackendError(HermitcrabError):
    """A memory backend failed."""


#: How an embedding provider failed. ``transient``: no answer, a server error or too many requests, so that it may
#: work later. ``quota``: the quota or balance is used up. ``auth``: the credentials are missing or refused.
#: ``request``: it refuses what was asked for. ``answer``: it answered with something other than the vectors.
#: ``switched``: the fallback takes its place from now on.
EmbeddingFailure = Literal["transient", "quota", "auth", "request", "answer", "switched"]


class EmbeddingError(MemoryBackendError):
    """An embedding provider failed.

    :param kind: how; see :data:`EmbeddingFailure`.
    :param retry_after_s: seconds that the provider asked us to wait, where it said so.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: EmbeddingFailure,
        where: str | PathLike[str] | None = None,
        hint: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.kind = kind
        self.retry_after_s = retry_after_s


class ToolError(HermitcrabError):
    """A tool call cannot be carried out; the text goes back to the model."""


class PathRefusedError(ToolError):
    """A path leads outside the workspace."""
