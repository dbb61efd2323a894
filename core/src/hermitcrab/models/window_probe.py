"""Asking a server how large a model's context window is (design 7, "window of a model")."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    import httpx

_ASK_TIMEOUT_S = 5.0
_SERVED = (
    "context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "max_input_tokens",
)

_log = logging.getLogger("hermitcrab.models")


@frozen
class WindowAnswer:
    """The window in tokens, if the server said one, and whether the server could be asked at all."""

    tokens: int | None
    reached: bool


async def ask_context_window(
    client: httpx.AsyncClient, base_url: str, model: str, *, headers: Mapping[str, str]
) -> WindowAnswer:
    """Ask ``GET /models``, then the ``/props`` of llama.cpp. Never raises.

    The window that is served goes before the one that the model was trained with.
    """
    listed = await _get(client, f"{base_url}/models", headers)
    if listed is None:
        return WindowAnswer(None, reached=False)
    entry = _entry_of(listed, model)
    served = window_of_entry(entry)
    if served is None:
        root = base_url.removesuffix("/v1")
        served = window_of_props(await _get(client, f"{root}/props", headers))
    return WindowAnswer(served or trained_window_of_entry(entry), reached=True)


async def ask_model_window(
    client: httpx.AsyncClient, url: str, *, headers: Mapping[str, str]
) -> WindowAnswer:
    """Ask ``url``, which describes one model. Never raises."""
    described = await _get(client, url, headers)
    if described is None:
        return WindowAnswer(None, reached=False)
    entry = described if isinstance(described, dict) else {}
    return WindowAnswer(window_of_entry(entry), reached=True)


async def _get(client: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> Any:
    """The JSON at ``url``; an empty object for an answer without, None where there is no answer."""
    import httpx

    try:
        response = await client.get(url, headers=dict(headers), timeout=_ASK_TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        _log.debug("the server did not say its context window: %s", type(error).__name__)
        return None
    try:
        return response.json() if response.is_success else {}
    except (ValueError, RecursionError):
        return {}


def _entry_of(listed: Any, model: str) -> Mapping[str, Any]:
    """The list's entry of the model; a list of one entry is that model under the server's own name."""
    entries = listed.get("data") if isinstance(listed, dict) else listed
    rows = [row for row in entries if isinstance(row, dict)] if isinstance(entries, list) else []
    named = [row for row in rows if row.get("id") == model]
    if named:
        return named[0]
    return rows[0] if len(rows) == 1 else {}


def window_of_entry(entry: Mapping[str, Any]) -> int | None:
    """The window that a server's description of a model says is served."""
    return next((size for name in _SERVED if (size := _positive(entry.get(name)))), None)


def trained_window_of_entry(entry: Mapping[str, Any]) -> int | None:
    """The window that llama.cpp says a model was trained with."""
    meta = entry.get("meta")
    return _positive(meta.get("n_ctx_train")) if isinstance(meta, dict) else None


def window_of_props(properties: Any) -> int | None:
    """The window in the ``/props`` of llama.cpp."""
    settings = properties.get("default_generation_settings") if isinstance(properties, dict) else 0
    return _positive(settings.get("n_ctx")) if isinstance(settings, dict) else None


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
