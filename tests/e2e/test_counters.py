# SPDX-License-Identifier: BSD-2-Clause
"""Perf events of calls: the kernel's software events, which exist everywhere, by known answers.
Hardware events use the same code; a machine without them says so."""
import json

import pytest
from conftest import LINKS, WORKLOADS, functions, run

QUICK = ["--no-calibrate", "--memory", "off", "-F", "faults:{touch_*,nap}"]
SOFTWARE = ["--counters", "page-faults,context-switches,task-clock"]


def counted(report, name):
    [row] = functions(report, name)
    return row["perf_counters"]


def traced(program, tracer, *argv, options=(), link=None, times=3):
    p = program(WORKLOADS / "faults", *argv)
    t = tracer(p.pid, *QUICK, *SOFTWARE, *options, link=link)
    p.go(times)
    return t.stop(), p.finish()


def check(report, expected):
    for (name, key), value in expected.items():
        if key == "calls":
            assert counted(report, name)["calls"] == value and counted(report, name)["missed"] == 0
        elif key == "page-faults":
            # and pages of the program's own code, which the probes have replaced
            assert 0 <= counted(report, name)[key] - value <= 3
        else:
            assert counted(report, name)[key] >= value


@pytest.mark.kernel
@pytest.mark.parametrize("how", ["auto", "exit"])
@pytest.mark.parametrize("link", LINKS)
def test_faults(how, link, program, tracer, links):
    """The first touch of a page is a fault: as many as the program expects, in a function including its
    callees."""
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    report, expected = traced(program, tracer, options=["--return", how], link=link)
    check(report, expected)
    # it sleeps: the thread's clock stands still
    [nap] = functions(report, "nap")
    assert nap["perf_counters"]["task-clock"] < nap["total_ns"] / 2


def test_of_another_thread(program, tracer):
    """Events count for the calling thread, and by process for all threads."""
    report, expected = traced(program, tracer, "thread")
    check(report, expected)
    [process] = report["processes"]
    totals = {c["name"]: c for c in process["perf_counters"]}
    assert totals["page-faults"]["value"] >= expected["touch_pages", "page-faults"]
    assert totals["page-faults"]["samples"] == 2
    assert totals["page-faults"]["counted_share"] == 1
    assert totals["task-clock"]["unit"] == "ns"


def test_without_room_in_the_ring(program, tracer):
    """Sums need no record."""
    p = program(WORKLOADS / "faults")
    t = tracer(p.pid, *QUICK, *SOFTWARE, "--ring-size", "4K")
    with t.stopped():
        p.go(20)
    report = t.stop()
    check(report, p.finish())
    assert report["losses"]["ring_drops"] > 100


def test_new_threads_are_missed_not_forgotten(program, tracer):
    """A thread that ends very soon has no events: its calls count as missed."""
    report, expected = traced(program, tracer, "new-thread", times=5)
    row = counted(report, "touch_pages")
    assert row["calls"] + row["missed"] == expected["touch_pages", "calls"]
    assert row["missed"]


def test_children(tmp_path):
    """A started program is counted from its first instruction on."""
    file = tmp_path / "report.json"
    done = run("run", *QUICK, *SOFTWARE, "-o", file, "--", WORKLOADS / "faults", input="go\ngo\n")
    assert done.returncode == 0, done.stderr
    expected = dict(line.removeprefix("expect touch_pages ").split() for line in
                    done.stdout.splitlines() if line.startswith("expect touch_pages "))
    row = counted(json.loads(file.read_text()), "touch_pages")
    # and once before the first "go"
    assert row["calls"] + row["missed"] == int(expected["calls"]) + 10


def has_hardware():
    return any(line.startswith("ok") and "hardware counters" in line
               for line in run("doctor").stdout.splitlines())


def test_hardware_or_why_not(program, tracer):
    """Hardware events are never silently absent."""
    p = program(WORKLOADS / "faults")
    t = tracer(p.pid, *QUICK, "--counters", "on")
    p.go()
    report = t.stop()
    p.finish()
    if has_hardware():
        assert counted(report, "touch_pages")["instructions"] > 0
        return
    assert report["perf_counters_missing"]
    assert any("no hardware counters: " in line for line in t.lines), t.lines
    assert "perf_counters" not in functions(report, "touch_pages")[0]


def test_with_known_flops(program, tracer):
    """Functions with known FLOPs get hardware counters by default."""
    p = program(WORKLOADS / "blas_calls")
    t = tracer(p.pid, "--no-calibrate", "--no-peaks", "--memory", "off")
    p.go()
    report = t.stop()
    p.finish()
    rows = functions(report, "cblas_dgemm")
    assert ("perf_counters" in rows[0]) == has_hardware()
    assert ("perf_counters_missing" in report) == (not has_hardware())
    assert not any("hardware counters" in line for line in t.lines)


def test_off(program, tracer):
    p = program(WORKLOADS / "blas_calls")
    t = tracer(p.pid, "--no-calibrate", "--no-peaks", "--memory", "off", "--counters", "off")
    p.go()
    report = t.stop()
    p.finish()
    assert "perf_counters_missing" not in report
    assert not any("perf_counters" in f for f in functions(report, "cblas_dgemm"))


@pytest.mark.parametrize("value", ["joules", "cycles,", "",
                                   "cycles,instructions,flops,llc-misses,task-clock"])
def test_what_is_no_counter_is_refused(value):
    result = run("-p", "1", "--counters", value)
    assert result.returncode == 2
    assert "--counters" in result.stderr and "page-faults" in result.stderr
