"""Chroma's asynchronous HTTP API, held to deadlines. Importing this module loads chromadb."""

from __future__ import annotations

from typing import Any

import httpx
from chromadb.api.async_fastapi import AsyncFastAPI
from chromadb.api.models.AsyncCollection import AsyncCollection
from chromadb.config import Settings, System
from overrides import override

_API_PATH = "/api/v2"


class ServerApi(AsyncFastAPI):
    """One server, one HTTP client.

    Chroma's own client has no deadlines, does not check certificates, and sends the headers of the first server that
    the process talks to, credentials included, to every other one.
    """

    http: httpx.AsyncClient | None = None
    is_closed = False
    timeout: httpx.Timeout = httpx.Timeout(20.0)

    @override
    def _get_client(self) -> httpx.AsyncClient:
        if self.is_closed:
            raise httpx.CloseError("the connection was closed")
        if self.http is None:
            self.http = httpx.AsyncClient(
                headers={
                    **(self._settings.chroma_server_headers or {}),
                    "Content-Type": "application/json",
                },
                timeout=self.timeout,
                limits=self.http_limits,
                # Reading the certificates of all authorities takes longer than most requests.
                verify=bool(self._settings.chroma_server_ssl_enabled),
            )
        return self.http

    async def close(self) -> None:
        """Close the connections; calls under way fail, and so does every later one."""
        self.is_closed = True
        client, self.http = self.http, None
        if client is not None:
            await client.aclose()

    async def plain(self, path: str) -> httpx.Response:
        """The answer to a GET below the server's root, whatever it is."""
        root = self.get_api_url().removesuffix(_API_PATH)
        return await self._get_client().get(f"{root}{path}")

    def collection(self, model: Any) -> AsyncCollection:
        """The collection that ``model`` describes; it never embeds anything."""
        return AsyncCollection(client=self, model=model, embedding_function=None)


def server_api(
    *,
    host: str,
    port: int,
    ssl: bool,
    headers: dict[str, str],
    connect_timeout_s: float,
    timeout_s: float,
) -> ServerApi:
    """The API of one server; does not connect."""
    arguments: dict[str, Any] = {
        # A .env file of the current folder has no say in where memories go.
        "_env_file": None,
        "anonymized_telemetry": False,
        "chroma_api_impl": "chromadb.api.async_fastapi.AsyncFastAPI",
        "chroma_server_api_default_path": _API_PATH,
        "chroma_server_host": host,
        "chroma_server_http_port": port,
        "chroma_server_ssl_enabled": ssl,
        "chroma_server_headers": headers,
        "chroma_otel_collection_endpoint": "",
        "chroma_otel_granularity": None,
    }
    api = System(Settings(**arguments)).instance(ServerApi)
    api.timeout = httpx.Timeout(timeout_s, connect=connect_timeout_s)
    return api
