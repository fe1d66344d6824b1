# SPDX-License-Identifier: BSD-2-Clause
"""More calls than the ring holds: counts and totals stay true, and the report says what it lacks."""
import pytest
from conftest import WORKLOADS, check_expectations, consistent, functions, total


@pytest.mark.parametrize("ring", ["4K", "64K"])
@pytest.mark.parametrize("how", ["auto", "exit"])
def test_calls_are_exact(ring, how, program, tracer):
    """Eight threads at once; the reader is stopped meanwhile, so that the ring is full for certain."""
    p = program(WORKLOADS / "threads", "8", "2000")
    t = tracer(p.pid, "--no-calibrate", "--ring-size", ring, "--return", how, "-F",
               "threads:{work,work_nested}")
    with t.stopped():
        p.go()
    p.go()
    expected = p.finish()
    report = t.stop()
    consistent(report)
    check_expectations(report, expected)
    drops = report["losses"]["ring_drops"]
    # what the ring can hold at the most went through during the first run, at the least nothing
    room = {"4K": 4096, "64K": 65536}[ring] // 56
    assert expected["work", "calls"] * 3 // 4 - room <= drops
    assert drops < expected["work", "calls"] + expected["work_nested", "calls"]


def test_totals_are_the_same_with_and_without_room(program, tracer):
    """total = sum over all calls, those without a record included: bounded by the time that the
    threads had, and by the nesting that both ways must show."""
    p = program(WORKLOADS / "calls")
    t = tracer(p.pid, "--no-calibrate", "--ring-size", "4K", "-F", "calls:{outer,middle,leaf}")
    with t.stopped():
        p.go(2)
    expected = p.finish()
    report = t.stop()
    consistent(report)
    drops = report["losses"]["ring_drops"]
    assert drops >= 48000 - 100
    rows = {name: functions(report, name)[0] for name in ("outer", "middle", "leaf")}
    for name, row in rows.items():
        assert row["calls"] == expected[name, "calls"]
        assert row["timed"] == row["calls"], "a booked call has its time"
    # integers: what the children took is taken off, nothing is counted twice
    assert sum(row["self_ns"] for row in rows.values()) == rows["outer"]["total_ns"]
    assert rows["outer"]["total_ns"] > rows["middle"]["total_ns"]
    assert rows["outer"]["total_ns"] < report["processes"][0]["wall_ns"]
    assert rows["leaf"]["self_ns"] == rows["leaf"]["total_ns"]


def test_no_drop_with_room(program, tracer):
    """The same load with the usual ring: nothing is lost, and zero is what is said."""
    p = program(WORKLOADS / "threads", "8", "2000")
    t = tracer(p.pid, "--no-calibrate", "-F", "threads:{work,work_nested}")
    p.go()
    expected = p.finish()
    report = t.stop()
    check_expectations(report, expected)
    assert report["losses"]["ring_drops"] == 0
    assert not report["capture"]["partial"]


def test_lossy_is_partial(program, tracer):
    """Above 1 % of records lost the capture is partial, for the reason that is said."""
    p = program(WORKLOADS / "threads", "4", "1000")
    t = tracer(p.pid, "--no-calibrate", "--ring-size", "4K", "-F", "threads:work")
    with t.stopped():
        p.go()
    p.finish()
    report = t.stop()
    assert total(report, "work", "calls") == 16000
    assert "lossy" in report["capture"]["partial_reasons"]
