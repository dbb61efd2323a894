"""bench.hooks: it measures every row and writes them down."""

from __future__ import annotations

import json

from bench.hooks.__main__ import main
from click.testing import CliRunner


def test_every_row_is_measured(tmp_path):
    out = tmp_path / "out.json"
    done = CliRunner().invoke(main, ["--runs", "1", "--count", "100", "--json", str(out)])
    assert done.exit_code == 0, done.output
    (report,) = json.loads(out.read_text(encoding="utf-8"))
    assert [row["what"] for row in report["rows"]] == [
        "no handler",
        "1 plain handler",
        "10 plain handlers",
        "10 coroutines, beside 10 plain functions",
    ]
    assert all(row["ratio"] > 0 for row in report["rows"])
