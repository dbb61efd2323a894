"""Names of collections and ids of rows."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest(*parts: str, length: int = 16) -> str:
    """A short hash of some texts, whatever is in them."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def workspace_id(home: Path, workspace: Path) -> str:
    """Tells workspaces apart on a server that several machines use: a random part for the home, a hash for the path.

    :raises OSError: the home cannot be written.
    """
    return digest(_host_id(home), str(workspace.absolute()))


def _host_id(home: Path) -> str:
    path = home / "memory" / "chroma-host-id"
    try:
        text = path.read_text(encoding="ascii").strip()
        if text:
            return text
    except FileNotFoundError:
        pass
    import os
    import uuid

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    draft.write_text(uuid.uuid4().hex, encoding="ascii")
    try:
        # Of two processes that start at once, one wins, and both read what it wrote.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
    return path.read_text(encoding="ascii").strip()
