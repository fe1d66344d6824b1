# SPDX-License-Identifier: BSD-2-Clause
"""Annotations by perfx.h (workloads/annotations.c), by the Python package, by markers in libraries and
in stripped files: names, numbers and counts equal those of the program, with every kind of link."""
import json
import math
import os
import re
import subprocess

import pytest
from conftest import (BUILD, LINKS, PERFX, TOP, WORKLOADS, Program, Tracer, check_expectations,
                      consistent, functions, working_links)

QUIET = ("--no-calibrate",)
LIBRARY = {**os.environ, "PERFX_LIBRARY": str(BUILD / "libperfx.so.1")}


@pytest.fixture
def annotated(program, tracer):
    """Runs a case; returns the program's expectations and the report. A first run without probes brings
    its literals into memory, which some kinds of link cannot do."""
    def run(case, *options, runs=2, binary="annotations", first=True, **more):
        process = program(WORKLOADS / binary, case)
        before = {}
        if first:
            process.go()
            before = {"runs": 1}
        trace = tracer(process.pid, *QUIET, *options, **more)
        process.go(runs)
        expected = process.finish()
        report = trace.stop()
        report["stderr"] = "".join(trace.lines)
        consistent(report)
        check(report, expected, runs, runs + len(before))
        return expected, report

    return run


def check(report, expected, runs, of):
    """A number that grows with the runs must be that of the traced ones."""
    traced = {key: value * runs // of for key, value in expected.items()}
    check_expectations(report, {k: v for k, v in traced.items() if k[1] not in OTHERS})
    for (name, key), value in traced.items():
        if key == "samples":
            assert sum(c["samples"] for c in counters(report, name)) == value, name
        elif key in ("allocs", "frees"):
            assert sum(a[key] for a in allocators(report, name)) == value, (name, key)


OTHERS = ("samples", "allocs", "frees", "windows")


def counters(report, name):
    return [c for p in report["processes"] for c in p.get("counters", ()) if c["name"] == name]


def counter(report, name):
    (found,) = counters(report, name)
    return found


def own_memory(report):
    return [m for p in report["processes"] for m in p.get("memory", ()) if m["domain"] == "user"]


def allocators(report, name):
    return [a for m in own_memory(report) for a in m["allocators"] if a["name"] == name]


def row(report, name):
    (only,) = functions(report, name)
    return only


def parents(report, name):
    return {p["name"]: p["calls"] for p in row(report, name)["parents"]}


# the tests of tasks, values and blocks check the same of the best kind of link
CASES = ["unbalanced", "threads", "forks", "signals", "tasks", "values", "blocks"]


def lost(report):
    return {kind: count for kind, count in report["losses"].items() if count}


@pytest.mark.kernel
@pytest.mark.some(4)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("case", CASES)
def test_every_case_and_link(annotated, case, link):
    if link not in working_links():
        pytest.skip(f"this kernel has no {link} links")
    # only the sum of signals over all runs is known
    _, report = annotated(case, link=link, first=case != "signals")
    assert set(lost(report)) <= {"unmatched_entries", "unmatched_returns", "foreign_hits"}, lost(report)


@pytest.mark.some(1)
@pytest.mark.parametrize("binary", ["annotations-stripped", "annotations"])
def test_by_default_and_in_a_stripped_file(program, tracer, binary):
    """A plain `perfx-trace -p PID`."""
    process = program(WORKLOADS / binary, "tasks")
    trace = tracer(process.pid)
    process.go()
    check_expectations(trace.stop(), process.finish())


def check_sites(report):
    """A marker is hit where that is cheap."""
    sites = {p["site"] for p in report["overhead"]["probes"] if p["name"].startswith("perfx:")}
    doctor = subprocess.run([PERFX, "doctor"], capture_output=True, text=True, check=False).stdout
    fast = all(f"ok      optimized 5-byte nop{of}\n" in doctor for of in ("", " in forked children"))
    assert sites == {"nop5" if fast else "nop"}


def test_tasks_keep_their_own(annotated):
    _, report = annotated("tasks", runs=1)
    check_sites(report)
    assert set(lost(report)) <= {"foreign_hits"}
    assert parents(report, "part") == {"task a": 1000, "task b": 500}
    assert parents(report, "await") == {"task b": 500}
    assert parents(report, "inside") == {"await": 500}
    assert parents(report, "orphan") == {"event loop": 1000}
    assert parents(report, "task a") == parents(report, "task b") == {"event loop": 500}
    # a task's own time is the rest without its children's, to the nanosecond
    of_task = {p["name"]: p["total_ns"] for p in row(report, "part")["parents"]}
    task_a, task_b, wait = (row(report, name) for name in ("task a", "task b", "await"))
    assert task_a["self_ns"] == task_a["total_ns"] - of_task["task a"]
    assert task_b["self_ns"] == task_b["total_ns"] - of_task["task b"] - wait["total_ns"]
    assert wait["self_ns"] == wait["total_ns"] - row(report, "inside")["total_ns"]
    loop = row(report, "event loop")
    assert loop["self_ns"] == loop["total_ns"] - sum(row(report, name)["total_ns"]
                                                     for name in ("part", "inside", "orphan"))


def test_ten_thousand_names(annotated):
    _, report = annotated("names", "--ring-size", "32M", runs=1, first=False)
    (process,) = report["processes"]
    calls = {f["name"]: f["calls"] for f in process["functions"]}
    assert {f"name {i}" for i in range(10000)} <= set(calls)
    assert {name: n for name, n in calls.items() if n != 1} == {}
    assert {c["name"]: c["value"] for c in process["counters"]} == \
        {f"name {i}": i for i in range(0, 10000, 5)}
    # this many allocators have a number of their own, the others share one
    (memory,) = own_memory(report)
    allocs = {a["name"]: a["allocs"] for a in memory["allocators"]}
    other = allocs.pop("(other)")
    assert len(allocs) > 1000 and set(allocs.values()) == {1}
    assert other + len(allocs) == memory["allocs"] == memory["frees"] == 2000
    # names without room: of each block, at its allocation and free
    assert report["losses"]["map_full"] == 2 * other


def test_hostile_names(annotated):
    _, report = annotated("hostile", runs=2, first=False)
    shown = {"| `a` <b>&amp;</b> [x](y)", "=1+2\t\"q\"", "\x1b[31mred\x1b[0m", "", "h" * 128 + "…"}
    (process,) = report["processes"]
    calls = {f["name"]: f["calls"] for f in process["functions"]}
    # pushed, started, marked
    assert {name: calls.pop(name) for name in shown} == dict.fromkeys(shown, 60)
    assert calls.pop("(unreadable)") == 240
    ((bytes_, count),) = calls.items()
    assert count == 60 and re.fullmatch("[^a-z]+\\(", bytes_)
    samples = {c["name"]: c["samples"] for c in process["counters"]}
    assert {name: samples[name] for name in shown} == dict.fromkeys(shown, 40)
    assert samples["(unreadable)"] == 160
    (memory,) = own_memory(report)
    allocs = {a["name"]: (a["allocs"], a["frees"]) for a in memory["allocators"]}
    assert {name: allocs[name] for name in shown} == dict.fromkeys(shown, (20, 20))
    assert allocs["(unreadable)"] == (80, 80)
    # unreadable names are counted each time: four names, seven markers, twenty times
    assert report["losses"]["read_faults"] == 4 * 7 * 20


def test_values(annotated):
    _, report = annotated("values", runs=2)
    assert set(lost(report)) <= {"foreign_hits"}
    whole, tokens, tenths = (counter(report, name) for name in ("whole", "tokens", "tenths"))
    assert (whole["value"], whole["sum"], whole["min"], whole["max"]) == (799, 599000, -200, 799)
    assert (tokens["value"], tokens["sum"], tokens["min"], tokens["max"]) == (64000, 64000, 32, 32)
    assert tenths["value"] == tenths["sum"] == 200  # and not 199.99999999999
    strange = counter(report, "strange")
    assert strange["not_finite"] == 4 and (strange["sum"], strange["min"]) == (2, 1)
    assert "value" not in strange
    both = counter(report, "both")
    assert (both["value"], both["samples"], both["added"]) == (12.5, 6, 4)
    large = counter(report, "large")
    assert (large["max"], large["min"], large["value"]) == (1e300, -5e-324, -5e-324)
    for c in (whole, tokens, tenths):
        assert c["last"] == c["value"]
        wall = report["processes"][0]["wall_ns"]
        assert math.isclose(c["rate"], c["sum"] / wall * 1e9, rel_tol=1e-9)


def test_values_without_room(program, tracer):
    """Counts and sums of integers stay exact; the report says that other values are missing."""
    process = program(WORKLOADS / "annotations", "values")
    process.go()
    trace = tracer(process.pid, *QUIET, "--ring-size", "4K")
    with trace.stopped():
        process.go(20)
    report = trace.stop()
    process.finish()
    lost = report["losses"]["value_drops"]
    assert lost > 50000
    whole, tokens, tenths = (counter(report, name) for name in ("whole", "tokens", "tenths"))
    assert [c["samples"] for c in (whole, tokens, tenths)] == [20000] * 3
    assert (whole["value"], whole["sum"]) == (799, 20 * 299500)
    assert tokens["value"] == tokens["sum"] == 20 * 32000
    assert tenths["not_summed"] == tenths["lost"] > 15000 and "value" not in tenths
    assert math.isclose(tenths["sum"], (20000 - tenths["lost"]) / 10)
    assert sum(c.get("lost", 0) for c in report["processes"][0]["counters"]) == lost


def test_blocks(annotated):
    _, report = annotated("blocks", runs=1)
    assert set(lost(report)) <= {"foreign_hits"}
    (memory,) = own_memory(report)
    # the pool's block and the first of the cache's have one address; two of each ten stay
    assert (memory["allocs"], memory["frees"]) == (110, 90)
    assert memory["current_bytes"] == 200 and memory["current_count"] == 2
    assert memory["replaced"] == 18  # they are allocated again without a free
    assert memory["unknown_frees"] == 10
    assert memory["peak_bytes"] == 65536 + 1000
    hotspots = {h["allocator"]: h for h in memory["hotspots"]}
    assert hotspots["cache"]["function"] == "keep_some" and hotspots["cache"]["allocs"] == 100
    assert hotspots["pool"]["allocated_bytes"] == 10 * 65536
    # the marker itself is not a place
    assert not any("perfx_memory_alloc" in h["stack"][0] for h in memory["hotspots"])
    assert row(report, "keep_some")["calls"] == 100


def test_memory_off(annotated):
    _, report = annotated("values", "--memory", "off", runs=1)
    assert not own_memory(report)


@pytest.mark.kernel
@pytest.mark.parametrize("link", LINKS)
def test_the_program_says_when(annotated, link):
    if link not in working_links():
        pytest.skip(f"this kernel has no {link} links")
    expected, report = annotated("windows", "--wait", link=link)
    assert not functions(report, "outside") and not counters(report, "outside")
    windows = report["capture"]["windows"]
    assert len(windows) == expected["perfx", "windows"] * 2 // 3 == 12
    assert windows[0]["start_ns"] == 0 and windows[-1]["end_ns"] == report["capture"]["duration_ns"]
    assert sum(w["end_ns"] - w["start_ns"] for w in windows) == report["capture"]["recorded_ns"]
    assert all(a["end_ns"] <= b["start_ns"] for a, b in zip(windows, windows[1:]))
    said = report["stderr"]
    assert "waiting for perfx_trace_start" in said
    assert said.count("called perfx_trace_start") == said.count("called perfx_trace_stop") == 12
    (process,) = report["processes"]
    assert process["wall_ns"] == report["capture"]["duration_ns"]
    steps = process["steps"]
    assert steps["count"] == 60
    # a step does not begin before its window: the time between two windows is in no step
    assert steps["total_ns"] <= report["capture"]["recorded_ns"]


@pytest.mark.parametrize("link", ["session", pytest.param("multi", marks=pytest.mark.long),
                                  *(pytest.param(link, marks=pytest.mark.long) for link in ("perf", "single"))])
@pytest.mark.parametrize("who", ["processes", "threads"])
def test_several_say_when(program, tracer, who, link):
    """More windows than are listed: the report has everything after a start and nothing else, although
    others start and stop meanwhile."""
    if link not in working_links():
        pytest.skip(f"this kernel has no {link} links")
    process = program(WORKLOADS / "annotations", "windows_of_" + who)
    trace = tracer(process.pid, *QUIET, "--wait", link=link)
    process.go()
    report = trace.stop()
    expected = process.finish()
    assert row(report, "recorded")["calls"] == expected["recorded", "calls"] == 1000
    assert not functions(report, "outside")
    calls = sum(f["calls"] for f in functions(report, "inside"))
    if who == "processes":
        assert calls == expected["inside", "calls"] == 18000
    else:
        assert 0 < calls <= expected["inside", "at_most"]
    # a window that one thread closes cuts the calls of the others; a child's literals are not in
    # memory yet: links by perf event cannot read it in
    allowed = {"foreign_hits"} | ({"unmatched_entries", "unmatched_returns"} if who == "threads"
                                  else {"read_faults"} if link in ("perf", "single") else set())
    assert {k for k, v in report["losses"].items() if v} <= allowed
    assert 1 <= len(report["capture"]["windows"]) <= 4096
    assert "".join(trace.lines).count("perfx_trace_start") <= 101 + 1


def test_without_waiting_all_is_recorded(program, tracer):
    process = program(WORKLOADS / "annotations", "windows")
    trace = tracer(process.pid, *QUIET)
    process.go()
    process.finish()
    report = trace.stop()
    assert (row(report, "inside")["calls"], row(report, "outside")["calls"]) == (36, 6)
    assert row(report, "open at the start")["calls"] == 3
    assert "windows" not in report["capture"]
    assert report["losses"]["unmatched_returns"] == report["losses"]["unmatched_entries"] == 0


def test_run_waits_too(tmp_path):
    out = tmp_path / "report.json"
    done = subprocess.run([PERFX, "run", "--wait", "--no-calibrate", "-o", out, "--",
                           WORKLOADS / "annotations", "windows"], input="go\n", capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert len(report["capture"]["windows"]) == 6
    assert row(report, "inside")["calls"] == 30


def test_nothing_is_said():
    program = Program(WORKLOADS / "annotations", "values")
    tracer = Tracer(program.pid, *QUIET, "--wait")
    program.go()
    report = tracer.stop()
    program.finish()
    assert "nothing is recorded" in "".join(tracer.lines)
    assert not any(p["functions"] or p.get("counters") for p in report["processes"])
    assert report["losses"]["unmatched_entries"] == report["losses"]["unmatched_returns"] == 0


def test_exports_and_tables_have_counters(annotated, tmp_path):
    capture = tmp_path / "run.perfx"
    annotated("values", "--capture", capture, runs=1)
    perfetto, chrome, metrics = (subprocess.run([PERFX, "export", capture, "-f", format_], capture_output=True,
                                                check=True).stdout for format_ in ("perfetto", "chrome", "openmetrics"))
    assert perfetto.count(b"tokens") == 1
    events = [e for e in json.loads(chrome)["traceEvents"] if e["ph"] == "C" and e["name"] == "tokens"]
    assert [e["args"]["value"] for e in events] == list(range(32, 32001, 32))
    assert re.search(rb'^perfx_counter_value{[^}]*name="tokens"} 32000$', metrics, re.M)
    assert re.search(rb'^perfx_counter_samples_total{[^}]*name="whole"} 1000$', metrics, re.M)
    for format_ in ("text", "md", "html"):
        text = subprocess.run([PERFX, "report", capture, "-f", format_], capture_output=True, text=True,
                              check=True).stdout
        assert "Counters" in text and re.search("32,?000.*tokens", text, re.S), format_


# --- Python ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("link", LINKS)
def test_python(tracer, link):
    if link not in working_links():
        pytest.skip(f"this kernel has no {link} links")
    program = Program("/usr/bin/python3", str(TOP / "tests/workloads/markers.py"), env=LIBRARY)
    try:
        trace = tracer(program.pid, *QUIET, link=link)
        program.go(3)
        expected = program.finish()
        report = trace.stop()
    finally:
        program.kill()
    consistent(report)
    for (name, key), value in expected.items():
        if key in ("ranges", "started", "marks", "begins"):
            assert row(report, name)["calls"] == value, name
        elif key in ("counts", "additions"):
            assert counter(report, name)["samples"] == value
        elif key == "allocs":
            assert [a["allocs"] for a in allocators(report, name)] == [value]
    assert parents(report, "await") == {"fetch | `x`": 18}
    assert parents(report, "forward") == {"body": 30}
    assert parents(report, "body") == {"step": 30}
    fetch = row(report, "fetch | `x`")
    assert fetch["self_ns"] == fetch["total_ns"] - row(report, "await")["total_ns"]
    assert lost(report) == {}
