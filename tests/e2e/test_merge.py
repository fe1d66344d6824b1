# SPDX-License-Identifier: BSD-2-Clause
"""Captures of a job's ranks, as from two machines, become one capture on one clock."""
import json
import os
import re
import subprocess

import pytest
from conftest import BUILD, PERFX, TOP, run
from trainers import has_torch

PYTHON = "/usr/bin/python3"
SHIFT = BUILD / "e2e/shift"
SECONDS_APART = 3

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module", name="captures")
def record_ranks(tmp_path_factory):
    """One capture for each of two ranks that train together, on one clock; rank 1 is the straggler."""
    if not has_torch(PYTHON):
        pytest.skip(f"{PYTHON} has no torch (Debian: python3-torch)")
    place = tmp_path_factory.mktemp("ranks")
    job = subprocess.Popen([PYTHON, str(TOP / "tests/workloads/ranks.py"), "2", "--straggler", "1"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    paths = [place / f"node{rank}.perfx" for rank in range(2)]
    try:
        assert job.stdout.readline() == f"ready {job.pid}\n"
        tracers = [subprocess.Popen([PERFX, "record", "-p", str(pid), "-d", "3", "-o", path,
                                     "--observe", "off", "--max-overhead", "off"],
                                    stderr=subprocess.PIPE, text=True)
                   for pid, path in zip(pids_by_rank(job.pid), paths)]
        for tracer in tracers:
            _, err = tracer.communicate(timeout=120)
            assert tracer.returncode == 0, err
    finally:
        job.stdin.close()
        job.stdout.read()
        job.wait(60)
    return paths


def pids_by_rank(parent):
    """Children of the launcher, which starts them in the order of their ranks."""
    children = open(f"/proc/{parent}/task/{parent}/children", encoding="utf8").read().split()
    return sorted(map(int, children))


def shifted(path, seconds, drift_ppb=0):
    """The capture as another machine would have recorded it."""
    out = path.with_name(f"{path.stem}-{seconds}-{drift_ppb}.perfx")
    subprocess.run([SHIFT, path, out, "node2", str(int(seconds * 1e9)), str(drift_ppb)], check=True)
    return out


def merged(*paths):
    out = paths[0].with_name("+".join(path.stem for path in paths) + ".perfx")
    done = run("merge", *paths, "-o", out)
    assert done.returncode == 0, done.stderr
    return out, done.stderr


@pytest.fixture(scope="module", name="job")
def merge_ranks(captures):
    """Rank 1 on another machine."""
    return merged(captures[0], shifted(captures[1], SECONDS_APART))[0]


def report_of(capture):
    return json.loads(run("report", capture, "-f", "json").stdout)


def self_times(report):
    return {(p["rank"], f["name"]): (f["calls"], f["self_ns"]) for p in report["processes"] for f in p["functions"]}


@pytest.mark.some(1)
@pytest.mark.parametrize("seconds, drift_ppb", [(SECONDS_APART, 0), (-7.25, 40000)])
def test_clocks_seconds_apart_merge_within_a_millisecond(captures, seconds, drift_ppb):
    other = shifted(captures[1], seconds, drift_ppb)
    capture, said = merged(captures[0], other)
    report = report_of(capture)
    first, second = report["captures"]
    print(said, first, second)
    assert (first["host"], first["aligned_by"]) == (os.uname().nodename, "reference")
    assert (second["host"], second["aligned_by"]) == ("node2", "collectives")
    assert abs(second["offset_ns"] + seconds * 1e9) < 1e6
    assert second["error_ns"] < 1e6
    assert re.search(r"node2\): clock [-+]\d+\.\d{6} s, error ", said)
    assert [(r["rank"], r["host"]) for r in report["ranks"]] == [(0, first["host"]), (1, "node2")]


def test_nothing_is_lost_or_counted_twice(captures):
    alone = {key: value for path in captures for key, value in self_times(report_of(path)).items()}
    capture, said = merged(*captures)
    assert "the same machine, the same clock" in said
    report = report_of(capture)
    assert self_times(report) == alone
    assert len(report["captures"]) == 2
    assert not report["capture"]["partial"]
    for name in ("read_faults", "ring_drops", "unmatched_entries"):
        assert report["losses"][name] == sum(c["losses"][name] for c in report["captures"])


def test_the_straggler_of_two_machines_is_named(job):
    report = report_of(job)
    first, second = report["ranks"]
    assert first["waits_for"][0]["rank"] == 1
    assert first["last_count"] + second["last_count"] == second["collectives"]
    capture_host = report["capture"]["host"]
    if capture_host["others_cpu_ns"] < 0.1 * capture_host["busy_ns"]:  # otherwise each waits for CPUs, too
        assert second["last_count"] > 0.7 * second["collectives"]
        (straggler,) = [f for p in report["processes"] for f in p["findings"] if f["kind"] == "Straggler"]
        assert straggler["subject"].startswith("rank 1 of 2")
        assert straggler["place"]["function"].startswith("prepare")
    (skew,) = report["skew"]
    assert skew["collectives"] > 50 and len(skew["windows"]) == 12
    assert sum(w["collectives"] for w in skew["windows"]) == skew["collectives"]
    for window in skew["windows"]:
        assert window["min_ns"] <= window["median_ns"] <= window["max_ns"] <= skew["max_ns"]


def test_exports_have_a_group_for_each_rank(job, tmp_path):
    everything = tmp_path / "all.trace.json"
    assert run("export", job, "-o", everything).returncode == 0
    events = json.loads(everything.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    order = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    assert len(names) == 2 and {order[pid]: name.split(" (pid ")[0] for pid, name in names.items()} == \
        {0: "rank 0", 1: "rank 1"}
    for rank in range(2):
        file = tmp_path / f"rank{rank}.trace.json"
        assert run("export", job, "--rank", rank, "-o", file).returncode == 0
        trace = json.loads(file.read_text())
        assert trace["distributedInfo"] == {"backend": "", "rank": rank, "world_size": 2}
        assert {e["pid"] for e in trace["traceEvents"]} == {pid for pid in names if order[pid] == rank}
    assert "no process of" in run("export", job, "--rank", 2, "-o", file).stderr
    assert run("export", job, "-o", tmp_path / "job.pftrace").returncode == 0


def test_slices_and_differences_of_a_merged_capture(job):
    part = json.loads(run("report", job, "--since", "1s", "--until", "2s", "-f", "json").stdout)
    assert 1e9 <= part["capture"]["duration_ns"] < 3e9  # whole segments
    whole = report_of(job)
    for rank, (cut, all_of_it) in enumerate(zip(part["ranks"], whole["ranks"])):
        assert cut["rank"] == rank and 0.2 < cut["steps"] / all_of_it["steps"] < 0.95
    difference = run("diff", job, job)
    assert difference.returncode == 0, difference.stderr


def test_what_does_not_belong_together_is_rejected(captures, tmp_path):
    out = tmp_path / "job.perfx"
    for paths, message in (([captures[0], captures[0]], "are the same capture"),
                           ([captures[0], shifted(captures[0], 1)], "both have rank 0"),
                           ([captures[0]], "needs two capture files or more"),
                           ([captures[0], TOP / "README.md"], "needed: a capture")):
        done = run("merge", *paths, "-o", out)
        assert done.returncode != 0 and message in done.stderr, done.stderr
        assert not out.exists()
    done = run("merge", *captures, "-o", captures[0])
    assert done.returncode == 2 and "would be overwritten" in done.stderr
    job, _ = merged(*captures)
    done = run("merge", job, captures[0], "-o", out)
    assert done.returncode == 2 and "is a merged capture already" in done.stderr
