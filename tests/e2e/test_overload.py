# SPDX-License-Identifier: BSD-2-Clause
"""More calls than the ring can hold: counts and totals stay exact, and the report says what is
missing."""
import os
import pathlib
import subprocess

import pytest
from conftest import (WORKLOADS, check_expectations, consistent, functions, program_of_functions, total,
                      wait_for)


@pytest.mark.parametrize("how, ring", [("auto", "4K"), ("exit", "64K"),
                                       pytest.param("auto", "64K", marks=pytest.mark.long),
                                       pytest.param("exit", "4K", marks=pytest.mark.long)])
def test_calls_are_exact(ring, how, program, tracer):
    """Eight threads at once, with the reader stopped, so that the ring is certainly full."""
    p = program(WORKLOADS / "threads", "8", "2000")
    t = tracer(p.pid, "--no-calibrate", "--ring-size", ring, "--rings", "2", "--return", how, "-F",
               "threads:{work,work_nested}")
    with t.stopped():
        p.go()
    p.go()
    expected = p.finish()
    report = t.stop()
    consistent(report)
    check_expectations(report, expected)
    drops = report["losses"]["ring_drops"]
    # the first run's drops are between all records and all beyond the rings' capacity
    room = 2 * {"4K": 4096, "64K": 65536}[ring] // 56
    assert expected["work", "calls"] * 3 // 4 - room <= drops
    assert drops < expected["work", "calls"] + expected["work_nested", "calls"]


@pytest.mark.long
def test_many_processes_of_many_functions_keep_their_callers(program, tracer, tmp_path):
    """Each pair of process and function needs a calling context: 64,000 in this test."""
    processes, count = 32, 2000
    path = program_of_functions(tmp_path, count)
    programs = [program(path) for _ in range(processes)]
    t = tracer(",".join(str(p.pid) for p in programs), "--no-calibrate", "--memory", "off", "-F", "many:many_*")
    for p in programs:
        p.go(2)
    report = t.stop()
    for p in programs:
        p.finish()
    assert report["losses"]["map_full"] == 0
    calls = [f["calls"] for process in report["processes"] for f in process["functions"]]
    assert calls == [2] * (processes * count)


def test_totals_are_the_same_with_and_without_room(program, tracer):
    """total = sum over all calls, including those without a record: bounded by the threads' time, and
    by the nesting that both show."""
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
        assert row["timed"] == row["calls"], "an overflow call has its time"
    # integers: the children's part is subtracted, nothing counts twice
    assert sum(row["self_ns"] for row in rows.values()) == rows["outer"]["total_ns"]
    assert rows["outer"]["total_ns"] > rows["middle"]["total_ns"]
    assert rows["outer"]["total_ns"] < report["processes"][0]["wall_ns"]
    assert rows["leaf"]["self_ns"] == rows["leaf"]["total_ns"]


def test_no_drop_with_room(program, tracer):
    """The same load with the default ring: nothing is lost, and the report says zero."""
    p = program(WORKLOADS / "threads", "8", "2000")
    t = tracer(p.pid, "--no-calibrate", "-F", "threads:{work,work_nested}")
    p.go()
    expected = p.finish()
    report = t.stop()
    check_expectations(report, expected)
    assert report["losses"]["ring_drops"] == 0
    assert not report["capture"]["partial"]


def test_lossy_is_partial(program, tracer):
    """Above 1 % of lost records the capture is partial, with the reason."""
    p = program(WORKLOADS / "threads", "4", "1000")
    t = tracer(p.pid, "--no-calibrate", "--ring-size", "4K", "-F", "threads:work")
    with t.stopped():
        p.go()
    p.finish()
    report = t.stop()
    assert total(report, "work", "calls") == 16000
    assert "lossy" in report["capture"]["partial_reasons"]


@pytest.fixture
def memory_group():
    """A separate memory control group, and the file of its limit."""
    for top, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                       ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(top, f"perfx-{os.getpid()}")
        if os.path.exists(f"{top}/cgroup.procs"):
            group.mkdir()
            if (group / limit).exists():
                break
            group.rmdir()
    else:
        pytest.skip("no memory control groups here")
    yield group, limit
    assert wait_for(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def test_no_memory_for_a_threads_state(memory_group, program, tracer):
    """Calls of a thread for whose state the kernel has no room are counted, but not timed."""
    group, limit = memory_group
    p = program(WORKLOADS / "threads", "400", "10")
    t = tracer(p.pid, "--no-calibrate", "--memory", "off", "-F", "threads:work*",
               preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
    # its own memory does not count any more, that of the programs does
    (group.parent / "cgroup.procs").write_text(str(t.process.pid))
    used = next(group.glob("memory.usage_in_bytes"), group / "memory.current")
    (group / limit).write_text(str(int(used.read_text()) + (3 << 20)))
    p.go()
    (group / limit).write_text(str(1 << 40))
    report = t.stop()
    made = sum(value for (_, key), value in p.finish().items() if key == "calls")
    seen = total(report, "work", "calls") + total(report, "work_nested", "calls")
    timed = total(report, "work", "timed") + total(report, "work_nested", "timed")
    assert made == seen == 24000 and 0 < timed < made
    assert report["losses"]["untimed_calls"] == made - timed and report["losses"]["map_full"] == 0


@pytest.fixture
def full_group(memory_group, tmp_path):
    """A function that moves a process into a group at whose limit page cache must be reclaimed."""
    group, limit = memory_group

    def enter():
        (group / "cgroup.procs").write_text(str(os.getpid()))

    with open(tmp_path / "large", "wb") as large:
        large.truncate(400 << 20)
    (group / limit).write_text(str(200 << 20))
    for _ in range(2):
        subprocess.run(["cat", large.name], stdout=subprocess.DEVNULL, preexec_fn=enter, check=True)
    return enter


def test_a_group_full_of_page_cache(full_group, program, tracer):
    """The kernel cannot wait for room where it allocates a thread's state: the tracer has made room."""
    p = program(WORKLOADS / "threads", "50", "100")
    t = tracer(p.pid, "--memory", "off", "-F", "threads:work*", preexec_fn=full_group)
    p.go()
    expected, report = p.finish(), t.stop()
    assert report["losses"]["map_full"] == 0
    check_expectations(report, expected)
