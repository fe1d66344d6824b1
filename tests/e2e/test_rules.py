# SPDX-License-Identifier: BSD-2-Clause
"""Findings in CI: rules files, --fail-on, explain; the interface for scripts."""
import json
import pathlib
import subprocess

import pytest
from conftest import run

CAPTURE = pathlib.Path(__file__).resolve().parents[1] / "golden/captures/trainer.perfx"
OWN = 'silence *\nrule Big: process cpu_share < 1000% severity high "Less."\n'


@pytest.fixture
def rules(tmp_path):
    """Writes a rules file and returns its path."""
    def write(text):
        path = tmp_path / "ci.rules"
        path.write_text(text)
        return path
    return write


def kinds(report):
    return {finding["kind"] for process in report["processes"] for finding in process["findings"]}


def test_an_own_rule_fails_and_silence_passes(rules):
    failed = run("report", CAPTURE, "--rules", rules(OWN), "--fail-on", "high")
    assert failed.returncode == 4
    # its path may be wrapped
    assert "Big: " in failed.stdout and "ci.rules" in failed.stdout.replace("\n", "").replace(" ", "")
    line, = failed.stderr.splitlines()
    assert line.startswith("perfx-trace: --fail-on high: Big of ")
    passed = run("report", CAPTURE, "--rules", rules("silence *\n"), "--fail-on", "low")
    assert passed.returncode == 0, passed.stderr
    assert passed.stderr == ""


def test_the_report_names_the_file_and_counts_what_it_silences(rules):
    plain = json.loads(run("report", CAPTURE, "-f", "json").stdout)
    path = rules("silence *\n")
    silent = json.loads(run("report", CAPTURE, "-f", "json", "--rules", path).stdout)
    assert "rules" not in plain
    assert kinds(plain) and not kinds(silent)
    assert silent["rules"] == {"file": str(path), "silenced": sum(
        len(process["findings"]) for process in plain["processes"])}
    assert "silenced" in silent["verdict"]


@pytest.mark.parametrize("text, why", [
    ("PythonBound.high = 0.4\n", ":1: PythonBound.high: '0.4' is not a share: try 25%"),
    ("\n\nsilence PythonBond\n", ":3: PythonBond: no such kind of finding; similar: PythonBound"),
])
def test_a_mistake_is_an_error_of_usage(rules, text, why):
    result = run("report", CAPTURE, "--rules", rules(text), "--fail-on", "high")
    assert result.returncode == 2
    assert why in result.stderr and result.stdout == ""


def test_rules_are_not_overwritten(rules):
    path = rules(OWN)
    result = run("report", CAPTURE, "--rules", path, "-o", path, "-f", "md")
    assert result.returncode == 2
    assert path.read_text() == OWN


def test_of_a_program_that_is_started(rules):
    """A failure of the program takes precedence."""
    path = rules(OWN)
    found = run("run", "--rules", path, "--fail-on", "medium", "--", "sleep", "0.5")
    assert found.returncode == 4, found.stderr
    assert "--fail-on medium: Big of " in found.stderr
    assert run("run", "--rules", path, "--", "sleep", "0.5").returncode == 0
    failed = run("run", "--rules", path, "--fail-on", "high", "--", "sh", "-c", "sleep 0.5; exit 7")
    assert failed.returncode == 7, failed.stderr


def test_explain(rules):
    shown = run("explain", "pythonbound", "--rules", rules("PythonBound.medium = 40%\n"))
    assert shown.returncode == 0
    assert "PythonBound.medium = 40%" in shown.stdout
    every = run("explain").stdout
    assert len([line for line in every.splitlines() if line.startswith("PythonBound ")]) == 1
    unknown = run("explain", "PythonBond")
    assert unknown.returncode == 2 and "PythonBound" in unknown.stderr


SERVER = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile int sink;
__attribute__((noipa)) void serve(const char *why) { for (int i = 0; i < 20000; i++) sink += *why; }
__attribute__((noipa)) static void nameless(int i) { if (i < 0) puts("serving a request"); usleep(100); }
static void *loop(void *text) { for (int i = 0; i < 30; i++) { serve(text); usleep(1000); } return 0; }
int main(void)
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, loop, "x");
	for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
	for (int i = 0; i < 25; i++) nameless(i);
}
"""


def test_operators_of_a_file(tmp_path):
    """Inferences by a symbol, on two threads, and by a text in a program without symbols."""
    program = tmp_path / "server"
    rules = tmp_path / "rules"
    out = tmp_path / "out.json"
    subprocess.run(["cc", "-O2", "-s", "-rdynamic", "-pthread", "-x", "c", "-", "-o", program], input=SERVER,
                   text=True, check=True)
    rules.write_text('server:serve inference\nserver:engine::run inference\n  text "serving a request"\n')
    done = run("run", "--operators", rules, "--memory", "off", "-o", out, "--", program)
    assert done.returncode == 0, done.stderr
    process, = json.loads(out.read_text())["processes"]
    by_name = {row["name"]: row for row in process["inferences"]}
    assert by_name["serve"]["calls"] == 60 and by_name["serve"]["threads"] == 2
    assert by_name["serve"]["gaps"] == 58 and by_name["serve"]["gap_p50_ns"] >= 900_000
    assert by_name["engine::run"]["calls"] == 25 and by_name["engine::run"]["p50_ns"] >= 90_000
    rules.write_text("server:serve inferences\n")
    done = run("run", "--operators", rules, "--", program)
    assert done.returncode == 2 and "rules:1: after MODULE:GLOB comes" in done.stderr
