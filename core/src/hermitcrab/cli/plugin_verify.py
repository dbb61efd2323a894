"""``hermitcrab plugins verify``: the contracts over an installed plugin, without a test suite of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from attrs import frozen

from hermitcrab.errors import PluginError

_VARIABLE = "HERMITCRAB_VERIFY"
_MODULE = "hermitcrab.testing.verification"
# What pytest exits with: all passed, some failed; anything else is not a result. 5 is that nothing was collected.
_RESULTS = (0, 1)
_NOTHING = 5


@frozen(kw_only=True)
class Verdict:
    """One test of a contract; ``outcome`` is ``passed``, ``failed`` or ``skipped``, ``reason`` why it is not passed."""

    contract: str
    test: str
    outcome: str
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The verdict as JSON data."""
        return {
            "contract": self.contract,
            "test": self.test,
            "outcome": self.outcome,
            "reason": self.reason,
        }


def verify_plugin(plugin_id: str) -> list[Verdict]:
    """Run the contracts in a process of their own; none where the plugin registers nothing that has one.

    :raises PluginError: if pytest is missing, or the tests could not be run.
    """
    with tempfile.TemporaryDirectory(prefix="hermitcrab-verify-") as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "--rootdir",
                folder,
                f"--junitxml={report}",
                "-o",
                "asyncio_default_fixture_loop_scope=function",
                "-o",
                "python_classes=Test",
                "-o",
                "python_files=*.py",
                "--pyargs",
                _MODULE,
            ],
            cwd=folder,
            env={**os.environ, _VARIABLE: plugin_id},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == _NOTHING:
            return []
        if done.returncode not in _RESULTS or not report.exists():
            last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
            raise PluginError(
                f"the contracts could not be run: {last}",
                where=f"plugin {plugin_id}",
                hint="They need pytest and pytest-asyncio: pip install pytest pytest-asyncio",
            )
        return read_report(report.read_text(encoding="utf-8"))


def read_report(text: str) -> list[Verdict]:
    """The verdicts in a report in JUnit's form."""
    verdicts = []
    for case in ElementTree.fromstring(text).iter("testcase"):
        outcome, reason = "passed", None
        for child in case:
            if child.tag in ("failure", "error"):
                outcome, reason = "failed", _first_line(child.get("message"))
            elif child.tag == "skipped":
                outcome, reason = "skipped", _first_line(child.get("message"))
        contract = str(case.get("classname", "")).rpartition(".")[2].removeprefix("Test_")
        name = str(case.get("name", "")).removeprefix("test_").replace("_", " ")
        verdicts.append(Verdict(contract=contract, test=name, outcome=outcome, reason=reason))
    return verdicts


def _first_line(message: str | None) -> str | None:
    lines = (message or "").strip().splitlines()
    return lines[0] if lines else None
