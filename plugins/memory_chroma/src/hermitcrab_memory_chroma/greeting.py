"""Whether there is a Chroma server at an address that this client can talk to."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hermitcrab_memory_chroma.failures import ChromaRefusedError, away

if TYPE_CHECKING:
    from hermitcrab_memory_chroma.server_api import ServerApi

_HEARTBEAT = "/api/v2/heartbeat"
_OLD_HEARTBEAT = "/api/v1/heartbeat"
_BEAT = "nanosecond heartbeat"
_MAJOR = 1


async def greet(api: ServerApi, address: str, *, tenant: str, database: str) -> str:
    """The server's version, if it is a Chroma that we can use and has the tenant and the database.

    :raises ChromaAwayError: nobody answers.
    :raises ChromaRefusedError: what answers cannot be used.
    """
    import httpx

    try:
        answer = await api.plain(_HEARTBEAT)
        if answer.status_code in (401, 403):
            raise _no_access(address)
        if answer.status_code >= 500:
            raise away(address, f"status {answer.status_code}")
        if not isinstance(_json(answer), dict) or _BEAT not in _json(answer):
            old = await api.plain(_OLD_HEARTBEAT)
            raise _not_usable(address, _json(old))
        said = await api.plain("/api/v2/version")
        version = _json(said) or said.text
        _check_version(address, version)
        await _check_place(api, address, tenant, database)
    except httpx.TransportError as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())
        raise away(address, reason) from error
    return str(version)


def _check_version(address: str, version: Any) -> None:
    match = re.match(r"v?([0-9]+)\.", version) if isinstance(version, str) else None
    if match is not None and int(match[1]) == _MAJOR:
        return
    shown = ascii(version)[:60]
    raise ChromaRefusedError(
        f"the Chroma server says that its version is {shown}, and only versions {_MAJOR}.x can be used",
        where=address,
        hint=f"Run a server of version {_MAJOR}.x: `pip install 'chromadb>=1.5,<2'` and `chroma run`",
    )


async def _check_place(api: ServerApi, address: str, tenant: str, database: str) -> None:
    import httpx

    try:
        await api.get_tenant(tenant)
        await api.get_database(database, tenant)
    except httpx.TransportError:
        raise
    except Exception as error:
        if type(error).__name__ in ("ChromaAuthError", "AuthorizationError"):
            raise _no_access(address) from error
        raise ChromaRefusedError(
            f"the Chroma server does not give access to tenant '{tenant}', database '{database}'"
            f" ({' '.join(str(error).split())[:200]})",
            where=address,
            hint="Create them on the server, or correct tenant and database under"
            " plugins.entries.memory-chroma.config",
        ) from error


def _not_usable(address: str, old_answer: Any) -> ChromaRefusedError:
    if isinstance(old_answer, dict) and _BEAT in old_answer:
        return ChromaRefusedError(
            "the Chroma server is too old: it has the API v1 only",
            where=address,
            hint=f"Run a server of version {_MAJOR}.x: `pip install 'chromadb>=1.5,<2'` and `chroma run`",
        )
    return ChromaRefusedError(
        "what answers there is not a Chroma server",
        where=address,
        hint="Correct host, port and ssl under plugins.entries.memory-chroma.config",
    )


def _no_access(address: str) -> ChromaRefusedError:
    return ChromaRefusedError(
        "the Chroma server refuses the credentials",
        where=address,
        hint="Correct plugins.entries.memory-chroma.config.headers",
    )


def _json(answer: Any) -> Any:
    try:
        return json.loads(answer.text)
    except ValueError:
        return None
