"""``hermitcrab plugins verify``: the contracts over an installed plugin that has no tests of its own."""

from __future__ import annotations

from hermitcrab.cli.plugin_verify import Verdict, read_report

REPORT = """<testsuites><testsuite>
<testcase classname="hermitcrab.testing.verification.Test_context_engines_shelf" name="test_it_is_whole"/>
<testcase classname="x.Test_context_engines_shelf" name="test_it_keeps[long]"><failure message="AssertionError: no
more">...</failure></testcase>
<testcase classname="x.Test_memory_backends_shelf" name="test_b"><skipped message="no vectors"/></testcase>
<testcase classname="x.Test_memory_backends_shelf" name="test_c"><error message="failed on setup"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read():
    assert read_report(REPORT) == [
        Verdict(contract="context_engines_shelf", test="it is whole", outcome="passed"),
        Verdict(
            contract="context_engines_shelf",
            test="it keeps[long]",
            outcome="failed",
            reason="AssertionError: no more",
        ),
        Verdict(contract="memory_backends_shelf", test="b", outcome="skipped", reason="no vectors"),
        Verdict(
            contract="memory_backends_shelf", test="c", outcome="failed", reason="failed on setup"
        ),
    ]


def test_the_default_engine_keeps_its_contract(cli):
    report = cli.json("plugins", "verify", "legacy")
    assert report["ok"] is True
    assert {each["contract"] for each in report["verdicts"]} == {"context_engines_legacy"}
    assert len(report["verdicts"]) > 20
    printed = cli("plugins", "verify", "legacy").stdout
    assert "tests passed, 0 failed" in printed


def test_a_plugin_without_a_contract_says_so(cli):
    verified = cli("plugins", "verify", "compaction-safeguard")
    assert "registers nothing that has a contract" in verified.stdout + verified.stderr


def test_an_unknown_plugin_names_the_nearest(cli):
    assert 'Did you mean "legacy"?' in cli("plugins", "verify", "legac", code=1).stderr
