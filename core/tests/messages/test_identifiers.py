from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermitcrab.messages.identifiers import (
    REDACTED,
    extract_identifiers,
    missing_identifiers,
    redact,
)

UUID = "550e8400-e29b-41d4-a716-446655440000"
KINDS = [
    UUID,
    "8f3a9b2c1d",
    "DEADBEEFCAFE",
    "0xdeadbeef12",
    "9c1185a5c5e9fc54612808977ee8f548b2258d31",
    "https://example.org/a/b?x=1&y=2#top",
    "http://localhost:8080/health",
    "https://en.wikipedia.org/wiki/Crab_(animal)",
    "/etc/nginx/nginx.conf",
    "/srv/app-2/bin/run",
    "~/projects/crab",
    "/data/项目/readme.md",
    "C:\\Users\\dev\\notes.txt",
    "localhost:8443",
    "db-1.internal:5432",
    "192.168.1.10:80",
    "4815162342",
    "PROJ-1234",
    "main.py",
    "src/hermitcrab/errors.py",
    "archive.tar.gz",
    "__init__.py",
]


@pytest.mark.parametrize("identifier", KINDS)
@pytest.mark.parametrize(
    "sentence",
    [
        "{}",
        "It is {}.",
        "See ({}), then go on",
        'the value "{}";',
        "`{}`",
        "- {}\n- next",
        "**{}**",
        "Is it {}?",
        "请看{}。",
        "位于{}里，然后继续",
        "「{}」",
        "使用 {} ，好吗？",
    ],
)
def test_an_identifier_is_found_whatever_stands_around_it(identifier: str, sentence: str) -> None:
    assert extract_identifiers(sentence.format(identifier)) == [identifier]


@pytest.mark.parametrize(
    "text",
    [
        "at 12:30 we met",
        "from 9:05 to 17:45.",
        "3.14159265 and 1234567.5",
        "6.02214076e+23, 1.23456789e10",
        "v1.2.3 and 2.0",
        "only words, nothing else: yes/no, and/or",
        "a single /segment",
        "12345 is short, abcdef0 too",
        "ratio 3/4, e.g. this",
        "console.log(process.env)",
        "中文没有标识符，只有十二点三十分。",
        "",
    ],
)
def test_times_decimals_and_words_are_no_identifiers(text: str) -> None:
    assert extract_identifiers(text) == []


@pytest.mark.parametrize("url", ["https://example.org/a", "https://example.org/a/b.html"])
@pytest.mark.parametrize("end", [".", ",", ")", ").", "!", "?", "'", ">", "。", "，", "）", "、"])
def test_punctuation_behind_a_url_is_not_part_of_it(url: str, end: str) -> None:
    assert extract_identifiers(f"see {url}{end}") == [url]


def test_identifiers_come_in_order_and_once() -> None:
    text = "main.py, /etc/hosts/x, MAIN.py, main.py and deadbeef01 or DEADBEEF01"
    assert extract_identifiers(text) == ["main.py", "/etc/hosts/x", "MAIN.py", "deadbeef01"]


def test_file_names_in_chinese_are_found() -> None:
    assert extract_identifiers("文件 年度报告.pdf 已经发送") == ["年度报告.pdf"]


CREDENTIALS = [
    "sk-abcdefghijklmnop1234567890",
    "sk-proj-AbCdEf_123456-7890abcd",
    "ghp_0123456789abcdefghijABCDEFGHIJ",
    "github_pat_0123456789abcdefghijABCDEFGHIJ",
    "xoxb-123456789012-abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234567890\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize("sentence", ["{}", "use {} for it", "密钥是{}。", "token={}", "'{}'"])
def test_credentials_are_redacted_and_never_identifiers(credential: str, sentence: str) -> None:
    """C54: a credential must not be demanded in a summary, and not be kept in one."""
    text = sentence.format(credential)
    assert credential not in redact(text)
    assert REDACTED in redact(text)
    assert extract_identifiers(text) == []


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=hunter2hunter2", "hunter2hunter2"),
        ("DB_PASSWORD: 'correcthorse'", "correcthorse"),
        ('{"api_key": "0123456789abcdef"}', "0123456789abcdef"),
        ("Authorization: Bearer abcdef0123456789abcdef", "abcdef0123456789abcdef"),
        ("access-key = 0123456789abcdef", "0123456789abcdef"),
        ("postgres://admin:s3cr3tpass@db:5432/app", "s3cr3tpass"),
    ],
)
def test_named_secrets_are_redacted_in_place(text: str, secret: str) -> None:
    """C54"""
    assert secret not in redact(text)
    assert secret not in " ".join(extract_identifiers(text))


def test_a_url_with_a_secret_in_it_is_not_demanded() -> None:
    """C54"""
    assert extract_identifiers("https://example.org/?token=abcdefghijkl") == []


def test_what_is_no_secret_stays() -> None:
    text = "max_tokens=16000, the token count, sk-short, password reset"
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "identifier", "stands"),
    [
        ("port 8443 of localhost:8443", "localhost:8443", True),
        ("localhost:84430", "localhost:8443", False),
        ("mylocalhost:8443", "localhost:8443", False),
        ("number 12345678", "123456", False),
        ("the id is 12345678.", "12345678", True),
        ("id 12345678的", "12345678", True),
        ("commit DEADBEEF01", "deadbeef01", True),
        ("commit deadbeef012", "deadbeef01", False),
        (UUID.upper(), UUID, True),
        ("Main.py", "main.py", False),
        ("/srv/etc/app/x", "/etc/app/x", False),
        ("/etc/app/x/y", "/etc/app/x", False),
        ("in /etc/app/x.", "/etc/app/x", True),
        ("/etc/app/x\\n", "/etc/app/x", True),
        ("C:\\app\\x\\y", "C:\\app\\x", False),
        ("xmain.py", "main.py", False),
        ("first xmain.py, then main.py", "main.py", True),
    ],
)
def test_an_identifier_stands_only_as_a_whole(text: str, identifier: str, stands: bool) -> None:
    assert missing_identifiers(text, [identifier]) == ([] if stands else [identifier])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(KINDS),
            st.text("ab09./:-_@+~\\ ()*,=中。é", max_size=12),
        ),
        max_size=12,
    ),
    st.sampled_from([" ", "", "\n", ", ", "，", "/"]),
)
def test_what_was_found_in_a_text_stands_in_it(pieces: list[str], between: str) -> None:
    text = between.join(pieces)
    assert missing_identifiers(redact(text), extract_identifiers(text)) == []


HOSTILE = {
    "one letter": "a" * 200_000,
    "brackets": "[" * 100_000 + "]" * 100_000,
    "parentheses": "(" * 100_000 + ")" * 100_000,
    "dashes": "a-" * 100_000,
    "slashes": "/" * 200_000,
    "colons": ":" * 200_000,
    "letter and colon": "a:" * 100_000,
    "dots": "a." * 100_000,
    "at signs": "@" * 200_000,
    "segments": ("@" * 255 + "/") * 780,
    "long segments": ("a" * 256 + "/") * 780,
    "plus at": "+@" * 100_000,
    "underscores": "a_" * 100_000,
    "base64": "QUJDRA+/x9" * 20_000,
    "chinese and latin": "中a" * 100_000,
    "keys": "password=" * 22_000,
    "private keys": "-----BEGIN PRIVATE KEY-----" * 7_400,
    "token starts": "eyJaaaaaaaaaaaa." * 12_500,
    "urls": "http://" * 28_500,
    "schemes": "://" * 66_000,
    "zeros": "0" * 200_000,
    "0x": "0x" * 100_000,
    "url in brackets": "https://x/" + "(" * 199_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_no_more_time_than_any_other(name: str) -> None:
    """C41: a regular expression took minutes for 200 KB. Finding identifiers redacts first."""
    started = time.perf_counter()
    extract_identifiers(HOSTILE[name])
    assert time.perf_counter() - started < 1.0
