"""Chroma in a folder of this machine. Importing this module loads chromadb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chromadb.api.models.Collection import Collection
from chromadb.api.rust import RustBindingsAPI
from chromadb.config import DEFAULT_DATABASE, DEFAULT_TENANT, Settings, System


class FolderApi:
    """An open folder. All methods belong to one thread."""

    def __init__(self, path: Path) -> None:
        arguments: dict[str, Any] = {
            "_env_file": None,
            "anonymized_telemetry": False,
            "chroma_api_impl": "chromadb.api.rust.RustBindingsAPI",
            "is_persistent": True,
            "persist_directory": str(path),
            "chroma_otel_collection_endpoint": "",
            "chroma_otel_granularity": None,
        }
        self._system = System(Settings(**arguments))
        self._api = self._system.instance(RustBindingsAPI)
        self._system.start()
        self._place: dict[str, Any] = {"tenant": DEFAULT_TENANT, "database": DEFAULT_DATABASE}
        self.max_batch = self._api.get_max_batch_size()
        self.version = self._api.get_version()

    def find(self, name: str) -> Collection:
        """An existing collection; it never embeds anything."""
        return self._collection(self._api.get_collection(name, **self._place))

    def make(self, name: str, configuration: Any, metadata: dict[str, Any]) -> Collection:
        """The collection with this name, made if it is missing."""
        model = self._api.create_collection(
            name,
            configuration=configuration,
            metadata=metadata or None,
            get_or_create=True,
            **self._place,
        )
        return self._collection(model)

    def names(self) -> list[str]:
        """The names of all collections."""
        return [model.name for model in self._api.list_collections(**self._place)]

    def drop(self, name: str) -> None:
        """Delete a collection."""
        self._api.delete_collection(name, **self._place)

    def close(self) -> None:
        """Close the files."""
        self._system.stop()

    def _collection(self, model: Any) -> Collection:
        return Collection(client=self._api, model=model, embedding_function=None)
