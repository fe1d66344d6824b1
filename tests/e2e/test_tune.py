# SPDX-License-Identifier: BSD-2-Clause
"""tune and compare: a program whose best value is known, and no remains of it."""
import csv
import io
import json
import os
import signal
import subprocess
import time

import pytest
from conftest import PERFX, WORKLOADS, run, run_unprivileged, wait_for

TUNABLE = str(WORKLOADS / "tunable")
QUICK = ("--warmup", "300ms", "-d", "600ms")
QUICKER = ("--warmup", "200ms", "-d", "400ms")


def running():
    """Running programs of the test and their workers."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") == TUNABLE:
                found.append(int(pid))
        except OSError:
            pass
    return found


@pytest.fixture(autouse=True)
def leaves_nothing():
    assert not running()
    yield
    assert wait_for(lambda: not running()), f"left behind: {running()}"


def tuned(*argv, returncode=0, **more):
    result = run("tune", *QUICK, *argv, **more)
    assert result.returncode == returncode, result.stderr
    return result


@pytest.mark.alone
@pytest.mark.long
def test_a_known_optimum():
    """Steps of 20, 8.2 and 12 ms; the first four, three times as long, are in the warm-up."""
    report = json.loads(tuned("--workers", "0,2,8,9", "-f", "json", "--", TUNABLE, "{}").stdout)
    points = {point["values"]["workers"]: point for point in report["points"]}
    assert report["best"] == {"workers": "2"} == report["within_5_percent"]
    assert report["metric"]["kind"] == "steps"
    for workers, ms in (("0", 20), ("2", 8.2), ("8", 12)):
        assert points[workers]["median"] == pytest.approx(1000 / ms, rel=0.25)
        assert points[workers]["measured"] == 3 and points[workers]["failed"] == 0
    assert points["0"]["best_is_faster_by"]["change"] == pytest.approx(20 / 8.2 - 1, rel=0.25)
    assert points["0"]["best_is_faster_by"]["low"] > 0
    assert points["9"]["measured"] == 0 and "9 workers are too many" in points["9"]["why"]


def test_counters_calls_and_combinations():
    """32 samples and one call in each step; each combination of two lists."""
    def rows(metric, *argv):
        text = tuned(*QUICKER, "--env", "TUNABLE_PACE=1,3", "--metric", metric, "--repeat", "1", "-f", "csv",
                     *argv).stdout
        return {(row.get("workers", "1"), row["TUNABLE_PACE"]): row for row in csv.DictReader(io.StringIO(text))}

    by_samples = rows("samples", "--workers", "1,2", "--", TUNABLE, "{workers}")
    by_calls = rows("tunable:tunable_step", "--", TUNABLE, "1")
    assert list(by_samples) == [("1", "1"), ("1", "3"), ("2", "1"), ("2", "3")]
    assert list(by_calls) == [("1", "1"), ("1", "3")]
    for values, calls in by_calls.items():
        samples = by_samples[values]
        assert samples["measured"] == calls["measured"] == "1", (samples, calls)
        assert samples["metric"] == "samples/s" and calls["metric"] == "calls/s"
        # two recordings of a pace that the machine sets; with the wrong one the ratio would be 1
        assert float(samples["median"]) / float(calls["median"]) == pytest.approx(32, rel=0.15)


def test_time_to_exit_needs_no_privilege():
    result = run_unprivileged("tune", "--n", "0.4,0.2", "--metric", "exit-time", "--repeat", "2", "-f", "json", "--",
                              "sleep", "{}")
    if "ptrace is not allowed" in result.stderr:
        pytest.skip("ptrace is not allowed here")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["best"] == {"n": "0.2"} and report["metric"]["less_is_better"]
    slow, fast = report["points"]
    assert slow["lowest"] >= 0.4 and 0.2 <= fast["lowest"] < 0.4


def test_what_cannot_be_measured():
    """Each is a row with its reason, or one line; nothing hangs."""
    rows = list(csv.DictReader(io.StringIO(tuned(
        "--prog", f"/nonexistent,{TUNABLE},sleep", "--timeout", "1s", "--repeat", "1", "-f", "csv", "--", "{}",
        "4").stdout)))
    assert rows[0]["why"] == "it cannot be started"
    assert rows[1]["best"] == "true"
    assert rows[2]["why"] == "within 1.00 s no training step was seen (--step-range names what ends one)"
    for argv, say in ((("--workers", "1", "--", TUNABLE, "{}"), "neither an option of tune nor a list"),
                      (("--workers", "1,2", "--", TUNABLE), "no {workers} or {} to put its values into"),
                      (("--metric", "tunable:no_such", "--n", "1,2", "--", TUNABLE, "{}"), "no function of that name")):
        assert say in tuned(*argv, returncode=2).stderr


def test_programs_without_steps():
    """One line after the first run, instead of a table of runs with the same failure."""
    for argv in (("compare", "sleep 0.3", "sleep 0.3", *QUICK), ("tune", "--n", "0.3,0.4", *QUICK, "--", "sleep", "{}")):
        result = run(*argv)
        plan, why = result.stderr.splitlines()
        assert result.returncode == 1 and not result.stdout, result
        assert " runs" in plan and "no training step was seen in its first run" in why and "--metric exit-time" in why, why


@pytest.mark.long
def test_one_that_does_not_leave(monkeypatch):
    monkeypatch.setenv("TUNABLE_DEAF", "1")
    result = tuned("--workers", "4,9", "--repeat", "1", "-f", "csv", "--", TUNABLE, "{}")
    assert result.stderr.count("still runs after SIGTERM and SIGINT: it is killed") == 1
    assert [row["measured"] for row in csv.DictReader(io.StringIO(result.stdout))] == ["1", "0"]


def start(*argv):
    return subprocess.Popen([PERFX, "tune", *QUICKER, "--repeat", "100", "-f", "json", *argv], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def test_interrupted_it_reports_what_there_is():
    p = start("--workers", "1,4", "--", TUNABLE, "{}")
    for line in p.stderr:
        if "run 2 of 200" in line:
            break
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 0, err
    report = json.loads(out)
    assert report["interrupted"] and all(point["measured"] >= 1 for point in report["points"])


def test_interrupted_twice():
    p = start("--workers", "1,4", "--", TUNABLE, "{}")
    assert wait_for(running)
    p.send_signal(signal.SIGINT)
    time.sleep(0.1)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=30)
    # it may have ended the program by then
    assert p.returncode in (130, 1)


@pytest.mark.alone
@pytest.mark.long
def test_compare():
    """B's steps take half as long again; inside, so does the step's function."""
    result = run("compare", f"{TUNABLE} 2", f"TUNABLE_PACE=1.5 {TUNABLE} 2", *QUICK, "--repeat", "3", "--fail-on",
                 "20%", "-f", "json")
    assert result.returncode == 4, result.stderr
    assert "B is slower by more than 20 %" in result.stderr
    report = json.loads(result.stdout)
    change = report["change"]
    assert change["significant"] and change["worse"] and change["pairs"] == 3
    assert change["low"] < change["change"] < change["high"] < 0
    assert change["change"] == pytest.approx(1 / 1.5 - 1, abs=0.12)
    process, = report["diff"]["processes"]
    assert process["steps"]["avg_ns"]["ratio"] == pytest.approx(1.5, rel=0.25)


@pytest.mark.alone
def test_compare_with_itself():
    result = run("compare", f"{TUNABLE} 1", f"{TUNABLE} 1", *QUICKER, "--repeat", "2", "--no-trace", "--fail-on", "30%")
    assert result.returncode == 0, result.stderr
    assert "What changed inside" not in result.stdout
    assert result.stdout.count("2 of 2") == 2
