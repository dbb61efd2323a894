"""The fingerprint changes with what changes vectors, and with nothing else (memory 3.6)."""

from __future__ import annotations

import pytest

from hermitcrab.memory.embeddings.fingerprint import fingerprint_of, same_server

BASE = {
    "provider": "openai",
    "model": "m",
    "base_url": "https://api.example/v1",
    "headers": {"X-Team": "crabs"},
}


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "other"},
        {"model": "n"},
        {"base_url": "https://api.example/v2"},
        {"base_url": None},
        {"headers": {"X-Team": "gulls"}},
        {"headers": {}},
        {"dimensions": 256},
        {"input_types": ("q", None)},
        {"input_types": (None, "q")},
    ],
)
def test_what_changes_vectors_changes_it(change):
    assert fingerprint_of(**BASE) != fingerprint_of(**{**BASE, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "https://API.example/v1/"},
        {"base_url": "https://user:word@api.example/v1"},
        {"base_url": "https://api.example/v1?key=1#x"},
        {"headers": {"x-team": "crabs"}},
        *(
            {"headers": {"X-Team": "crabs", name: "anything"}}
            for name in ("Authorization", "x-goog-api-key", "X-Auth-Token", "Cookie", "My-Secret")
        ),
    ],
)
def test_a_new_key_and_another_spelling_do_not(change):
    assert fingerprint_of(**BASE) == fingerprint_of(**{**BASE, **change})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://api.example/v1", "https://API.example/other", True),
        ("https://api.example/v1", "http://api.example/v1", False),
        ("https://api.example", "https://api.example.evil", False),
        ("https://api.example@evil/v1", "https://api.example/v1", False),
        ("http://127.0.0.1:1", "http://127.0.0.1:2", False),
    ],
)
def test_servers_are_one_by_scheme_host_and_port(one, other, same):
    assert same_server(one, other) is same
