"""What tells vectors apart that cannot be compared (memory 3.6). Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

#: Headers that hold credentials: a new one does not change the vectors.
_CREDENTIAL_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)


def fingerprint_of(
    *,
    provider: str,
    model: str,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    dimensions: int | None = None,
    input_types: tuple[str | None, str | None] = (None, None),
) -> str:
    """64 hex digits that change with everything that changes vectors, and with nothing else.

    :param headers: those whose names speak of credentials are left out.
    :param dimensions: what was asked for, not what came back.
    :param input_types: what the provider is told of queries and of documents.
    """
    identity = {
        "provider": provider,
        "model": model,
        "baseUrl": None if base_url is None else plain_address(base_url),
        "headers": sorted(
            (name.lower(), value)
            for name, value in (headers or {}).items()
            if not _CREDENTIAL_HEADER.search(name)
        ),
        "dimensions": dimensions,
        "inputTypes": list(input_types),
    }
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def plain_address(url: str) -> str:
    """An address without what may be secret in it: user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme.lower()}://{host}{parts.path.rstrip('/')}"


def same_server(one: str, other: str) -> bool:
    """Whether two addresses lead to one server: a credential for the one may be shown to the other."""
    first, second = urlsplit(plain_address(one)), urlsplit(plain_address(other))
    return (first.scheme, first.netloc) == (second.scheme, second.netloc)
