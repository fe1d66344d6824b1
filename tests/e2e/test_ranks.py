# SPDX-License-Identifier: BSD-2-Clause
"""Processes of one job that train together (gloo): their ranks, and the rank that the others wait
for."""
import json
import os
import subprocess
import time

import pytest
from conftest import TOP, WORKLOADS, Tracer
from trainers import has_torch, traced_average

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def torch():
    if not has_torch(PYTHON):
        pytest.skip(f"{PYTHON} has no torch (Debian: python3-torch)")


SECONDS = 4


def train(count, *options):
    """The report, and each rank's own step time by its own clock while it was traced."""
    job = subprocess.Popen([PYTHON, str(TOP / "tests/workloads/ranks.py"), str(count), *options],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert job.stdout.readline() == f"ready {job.pid}\n"
        tracer = Tracer(job.pid, budget=True, duration=str(SECONDS))
        from_ns = time.monotonic_ns()
        try:
            report = tracer.report()
        finally:
            tracer.kill()
    finally:
        job.stdin.close()
        said = [json.loads(line) for line in job.stdout.read().splitlines()]
        job.wait(60)
    own_ns = {rank["rank"]: traced_average(rank["begun_ns"], rank["own_ns"], from_ns, SECONDS) for rank in said}
    print(report["verdict"], *report["ranks"], own_ns, sep="\n")
    return report, own_ns


def is_busy(report):
    """Whether other programs use more than a tenth of the machine: then ranks also wait for CPUs, and
    unequally."""
    capture = report["capture"]
    share = capture["host"]["others_cpu_ns"] / (capture["duration_ns"] * capture["host"]["cpus"])
    print(f"others use {share:.0%} of the machine")
    return share > 0.1


def findings(report, kind):
    return [f for p in report["processes"] for f in p["findings"] if f["kind"] == kind]


def check_arrivals(report, count):
    """Whatever delayed the ranks: waits between ranks add up, and the others wait for the rank that
    arrives last."""
    ranks = report["ranks"]
    (skew,) = report["skew"]
    assert all(r["collectives"] == skew["collectives"] for r in ranks)
    assert sum(r["last_count"] for r in ranks) == skew["collectives"] > 20
    assert sum(w["collectives"] for w in skew["windows"]) == skew["collectives"]
    waited_for = [sum(w["wait_ns"] for r in ranks for w in r["waits_for"] if w["rank"] == rank)
                  for rank in range(count)]
    assert sum(waited_for) == pytest.approx(sum(r["collectives_wait_ns"] for r in ranks), rel=1e-3)
    last = max(ranks, key=lambda r: r["last_count"])
    if last["last_count"] > 0.7 * skew["collectives"]:
        assert waited_for[last["rank"]] == max(waited_for)
    return last["rank"]


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.long)])
def test_the_straggler_is_named_with_its_line(count):
    options = [] if count == 2 else ["--passes", "24", "--channels", "4"]  # four share two CPUs
    report, own_ns = train(count, "--straggler", "1", *options)
    ranks = report["ranks"]
    assert [(r["rank"], r["world_size"]) for r in ranks] == [(rank, count) for rank in range(count)]
    assert {p["rank"] for p in report["processes"] if "rank" in p} == set(range(count))
    last = check_arrivals(report, count)
    if is_busy(report):  # then ranks wait for CPUs, unequally
        return
    assert last == min(ranks, key=lambda r: r["wait_ns"])["rank"] == 1
    (straggler,) = findings(report, "Straggler")
    assert straggler["subject"].startswith(f"rank 1 of {count}")
    late_ns = own_ns[1] - max(own for rank, own in own_ns.items() if rank != 1)
    print(f"late by {late_ns} ns a step, {straggler['gain_ns_per_step']} said")
    assert "runs Python for" in straggler["evidence"]
    assert straggler["place"]["function"].startswith("prepare")
    assert straggler["gain_ns_per_step"] == pytest.approx(late_ns, rel=0.1)
    assert report["verdict"].startswith("COMMUNICATION-BOUND: rank 1 holds up each step by")


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.usefixtures("torch")
def test_equal_ranks_have_none():
    """Except for differences in the speed of a virtual machine's CPUs, by the ranks' own clocks."""
    report, own_ns = train(2)
    ranks = report["ranks"]
    assert len(ranks) == 2
    check_arrivals(report, 2)
    late_ns = max(own_ns.values()) - min(own_ns.values())
    for straggler in findings(report, "Straggler"):
        print(f"late by {late_ns} ns a step, {straggler['gain_ns_per_step']} said")
        assert straggler["gain_ns_per_step"] == pytest.approx(late_ns, rel=0.1, abs=0.02 * ranks[0]["avg_step_ns"])


RETITLED = """
import ctypes, os, time
for name, value in list(os.environ.items()):  # with room of its own, as setproctitle makes it
    os.environ[name] = value
with open("/proc/self/stat") as stat:
    start, end = (int(field) for field in stat.read().rsplit(")", 1)[1].split()[47:49])
ctypes.memset(start, 0, end - start)
print("ready", flush=True)
time.sleep(60)
"""


def test_the_rank_of_a_program_that_overwrote_its_environment():
    """A process title overwrites the environment. Debian's python3 has the C library's `environ` in its
    own data."""
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "3"}
    program = subprocess.Popen(["/usr/bin/python3", "-c", RETITLED], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "ready\n"
        with open(f"/proc/{program.pid}/environ", "rb") as initial:
            assert b"RANK" not in initial.read()
        tracer = Tracer(program.pid, duration="100ms")
        try:
            report = tracer.report()
        finally:
            tracer.kill()
    finally:
        program.kill()
        program.wait()
    assert [process["rank"] for process in report["processes"]] == [1]


@pytest.mark.alone
def test_ranks_of_mpi():
    """Three MPI ranks, of which one sleeps 4 ms longer; each rank's own measurement is the truth."""
    job = subprocess.Popen([WORKLOADS / "ranks_mpi", "3", "2", "4000"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    try:
        assert job.stdout.readline() == f"ready {job.pid}\n"
        tracer = Tracer(job.pid, duration="3")
        try:
            report = tracer.report()
        finally:
            tracer.kill()
    finally:
        job.stdin.close()
        own = {int(rank): int(own_ns) / int(steps)
               for rank, steps, own_ns in map(str.split, job.stdout.read().splitlines())}
        assert job.wait(60) == 0
    late_ns = own[2] - max(own[0], own[1])
    print(report["verdict"], *report["ranks"], own, late_ns, sep="\n")
    assert [(r["rank"], r["world_size"]) for r in report["ranks"]] == [(0, 3), (1, 3), (2, 3)]
    assert {f["source"] for p in report["processes"] for f in p["functions"] if f["name"] == "MPI_Allreduce"} == {"mpi"}
    assert check_arrivals(report, 3) == 2
    assert report["ranks"][2]["last_count"] > 0.9 * report["ranks"][2]["collectives"]
    (straggler,) = findings(report, "Straggler")
    assert straggler["subject"].startswith("rank 2 of 3")
    assert "sleeps" in straggler["evidence"]
    assert straggler["gain_ns_per_step"] == pytest.approx(late_ns, rel=0.1)
