# SPDX-License-Identifier: BSD-2-Clause
"""Ranges of programs: names and counts equal those of the program (workloads/ranges.c)."""
import re

import pytest
from conftest import LINKS, WORKLOADS, check_expectations, consistent, functions, working_links

TRACED = ("-F", "ranges:{work,pushes,pops}", "--no-calibrate", "--memory", "off")


@pytest.fixture
def ranges(program, tracer):
    """Runs a case; returns the program's expectations and the report."""
    def run(case, *options, runs=2, **more):
        workload = program(WORKLOADS / "ranges", case)
        trace = tracer(workload.pid, *TRACED, *options, **more)
        workload.go(runs)
        expected = workload.finish()
        report = trace.stop()
        consistent(report)
        return expected, report

    return run


def calls(report):
    found = {}
    for process in report["processes"]:
        for f in process["functions"]:
            found[f["name"]] = found.get(f["name"], 0) + f["calls"]
    return found


def row(report, name):
    (only,) = functions(report, name)
    return only


def losses(report, *kinds):
    return [report["losses"][kind] for kind in kinds]


@pytest.mark.parametrize("link", LINKS)
def test_every_source_and_link(ranges, link):
    if link not in working_links():
        pytest.skip(f"this kernel has no {link} links")
    expected, report = ranges("nested", link=link)
    check_expectations(report, expected)
    assert calls(report) == {name: count for (name, _), count in expected.items()}
    assert losses(report, "unmatched_entries", "unmatched_returns", "read_faults") == [0, 0, 0]
    sources = {"epoch": "nvtx", "kernel": "roctx", "itt range": "itt",
               "Optimizer.step#SGD.step": "torch", "work": "symbol"}
    assert {name: row(report, name)["source"] for name in sources} == sources
    check_one_hierarchy(report)


def check_one_hierarchy(report):
    parents = {name: {p["name"]: p["calls"] for p in row(report, name)["parents"]}
               for name in ("step 0", "work", "kernel")}
    assert parents["step 0"] == {"epoch": 668}
    assert parents["kernel"] == {"step 0": 668, "step 1": 666, "step 2": 666}
    assert parents["work"] == {"kernel": 2000, "step 0": 668, "step 1": 666, "step 2": 666}
    # epoch has the steps, and the part of "kernel" that continues after them
    epoch, kernel = row(report, "epoch"), row(report, "kernel")
    inside = sum(row(report, f"step {i}")["total_ns"] for i in range(3))
    assert 0 < epoch["self_ns"] <= epoch["total_ns"] - inside
    assert kernel["self_ns"] < kernel["total_ns"]


def test_unbalanced(ranges):
    expected, report = ranges("unbalanced", runs=2)
    check_expectations(report, expected)
    assert row(report, "pushed inside")["timed"] == 200
    # a range outlives the call that opened it, which still has its own time
    parents = {p["name"]: p["calls"] for p in row(report, "pops")["parents"]}
    assert parents == {"pushed inside": 200}
    assert row(report, "pushes")["timed"] == 200
    assert row(report, "pushes")["unwound"] == row(report, "pushed inside")["unwound"] == 0


def test_ended_by_another_thread(ranges):
    expected, report = ranges("threads")
    check_expectations(report, expected)
    odd = row(report, "odd")
    assert odd["self_ns"] == odd["total_ns"]
    assert not functions(report, "of a thread that ends")


@pytest.mark.long
def test_ten_thousand_names(ranges):
    _, report = ranges("names")
    assert calls(report) == {f"name {i}": 2 for i in range(10000)}
    assert losses(report, "map_full", "ring_drops") == [0, 0]


def of_process(report, pid):
    return calls({"processes": [p for p in report["processes"] if p["pid"] == pid]})


def test_more_names_than_there_is_room(program, tracer):
    """The names of one process leave room for another. The report names the process that has used up its
    share."""
    flood, other = program(WORKLOADS / "ranges", "too_many_names"), program(WORKLOADS / "ranges", "hostile")
    trace = tracer(flood.pid, "-p", str(other.pid), *TRACED, "--ring-size", "32M")
    for p in (flood, other):
        p.go()
        p.finish()
    report = trace.stop()
    found = of_process(report, flood.pid)
    nameless = found.pop("(other)")
    assert sum(found.values()) + nameless == 20000
    assert set(found.values()) == {1} and len(found) > 16000
    assert report["losses"]["map_full"] == nameless
    found = of_process(report, other.pid)
    assert found["| `a` <b>&amp;</b> [x](y)"] == found["v" * 128] == 10
    assert "(other)" not in found
    said = [row["reason"] for row in report["not_attached"] if row["name"] == "names of ranges and values"]
    assert len(said) == 1 and said[0].startswith(f"process {flood.pid} brought 16")


def test_hostile_names(ranges):
    _, report = ranges("hostile")
    found = calls(report)
    assert found.pop("(unreadable)") == 80
    assert report["losses"]["read_faults"] == 80
    assert found.pop("h" * 128 + "…") == 20
    assert found.pop("u" * 127 + "…") == 20
    assert found.pop("v" * 128) == 20
    assert found.pop("| `a` <b>&amp;</b> [x](y)") == 20
    assert found.pop("=1+2\t\"q\"") == 20
    assert found.pop("") == 20
    assert found.pop("\x1b[31mred\x1b[0m") == 20
    ((bytes_, count),) = found.items()
    assert count == 20 and re.fullmatch("[^a-z]+\\(", bytes_)


def test_fork_inside_a_range(ranges):
    expected, report = ranges("forks")
    check_expectations(report, expected)


def test_deeper_than_there_is_room(ranges):
    expected, report = ranges("deep")
    check_expectations(report, expected)
    deep = row(report, "deep")
    assert deep["calls"] == 800 and deep["timed"] == 512
    assert losses(report, "untimed_calls", "unmatched_entries") == [288, 0]


def steps(report):
    (found,) = [p["steps"] for p in report["processes"] if "steps" in p]
    assert sum(found["breakdown"].values()) == found["divided_ns"] == found["total_ns"]
    assert found["avg_ns"] == found["total_ns"] // found["whole"]
    assert found["p50_ns"] <= found["p95_ns"] <= found["max_ns"]
    return found


def test_steps_by_the_optimizer(ranges):
    expected, report = ranges("train")
    check_expectations(report, expected)
    found = steps(report)
    # the start of the first step was not recorded
    assert (found["count"], found["whole"]) == (50, 49) and found["by"] == "Optimizer.step#SGD.step"
    assert all(found["breakdown"][phase] > 0 for phase in ("data", "forward", "backward",
                                                           "optimizer", "other"))
    optimizer = sum(row(report, f"Optimizer.{name}")["total_ns"]
                    for name in ("zero_grad#SGD.zero_grad", "step#SGD.step"))
    assert found["breakdown"]["optimizer"] == pytest.approx(optimizer * 49 / 50, rel=0.2)
    data = row(report, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    assert found["breakdown"]["data"] == pytest.approx(data["total_ns"] * 49 / 50, rel=0.2)


def test_steps_by_a_named_range(ranges):
    _, report = ranges("train", "--step-range", "my step")
    found = steps(report)
    assert found["count"] == 100 and found["by"] == "my step"


def test_a_recording_of_so_many_steps(program, tracer):
    workload = program(WORKLOADS / "ranges", "train")
    trace = tracer(workload.pid, *TRACED, "--steps", "30", duration="60")
    for _ in range(10):
        workload.go()
    report = trace.report()
    assert 30 <= steps(report)["count"] <= 250


@pytest.mark.some(2)
@pytest.mark.parametrize("level,seen", [("0", set()), ("1", {"epoch", "kernel"}),
                                        ("2", {"epoch", "kernel"})])
def test_host_level(program, tracer, level, seen):
    workload = program(WORKLOADS / "ranges", "nested")
    trace = tracer(workload.pid, "--no-calibrate", "--memory", "off", "--host-level", level)
    workload.go()
    workload.finish()
    assert {"epoch", "kernel"} & set(calls(trace.stop())) == seen
