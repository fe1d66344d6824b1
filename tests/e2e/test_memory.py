# SPDX-License-Identifier: BSD-2-Clause
"""Memory of programs with known answers: equality, under every allocator and with every kind of link;
also compared with glibc's own count and heaptrack."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import (BPFTOOL, LINKS, PERFX, TOP, WORKLOADS, bpf_object_exists, bpf_objects, patched_bytes,
                      run, status, until_attached, wait_for)
from memories import (ALLOCATORS, check_memory, consistent_memory, entries, hotspots, library,
                      value_of)

# --no-calibrate saves half a second each
ALL = ["--memory", "all", "--no-calibrate"]

# program and arguments: how often "go"
CASES = {
    "memory": 1,
    "memory-static": 2,
    "memory_map partial": 1,
    "memory_map fixed": 1,
    "memory_map remap": 1,
    "memory_map failing": 1,
    "memory_map before": 1,
    "memory_realloc resize": 1,
    "memory_realloc failing": 2,
    "memory_realloc zero": 1,
    "memory_threads": 2,
    "memory_children fork": 1,
    "memory_children vfork": 1,
    "memory_children exec": 1,
    "memory_late": 4,
    "memory_signal handler": 1,
    "memory_signal storm": 1,
    "memory_mallinfo": 2,
    "memory_sites": 1,
    "memory_new throw": 1,
    "memory_new handler": 1,
    "memory_new jump": 1,
    # the tests of heaptrack and of stacks check the same
    "memory heap": 1,
    "memory_peak": 1,
    "memory_chain": 1,
    # like others
    "memory_children spawn": 1,
    "memory_new plain": 1,
    "memory_realloc before": 1,
}
LIKE_OTHERS = 6

# What another allocator does otherwise, untraced: mimalloc's operator new ends the program where
# glibc's throws; mallinfo2() is glibc's; tcmalloc has an mmap of its own around libc's, so that the
# program's function is not the immediate caller.
def case_of(case, allocator):
    """make test uses glibc's allocator and one other."""
    some = allocator == "jemalloc" and case in ("memory_threads", "memory_realloc failing", "memory_new throw",
                                                "memory_children fork")
    return pytest.param(case, allocator, marks=[] if some else [pytest.mark.long])


PRELOADED = [case_of(case, allocator) for allocator in ALLOCATORS for case in CASES
             if case not in ("memory", "memory-static", "memory_mallinfo") and "map" not in case and
             (allocator != "mimalloc" or case not in ("memory_new throw", "memory_new handler",
                                                      "memory_new jump"))]


def traced(start_program, start_tracer, case, *options, link=None, env=None, runs=None):
    """Runs a case; returns the report, the program's expectations, and its pid."""
    name, *arguments = case.split()
    p = start_program(WORKLOADS / name, *arguments, env=dict(os.environ, **(env or {})))
    t = start_tracer(p.pid, *options, link=link)
    for step in range(runs or CASES.get(case, 1)):
        p.go()
        if name == "memory_late" and not step:
            time.sleep(0.5)  # until the tracer knows the library
    report = t.stop()
    return report, p.finish(), p.pid


@pytest.mark.kernel
@pytest.mark.some(len(CASES) - LIKE_OTHERS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("case", CASES)
def test_known_memory(case, link, links, program, tracer):
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    report, expected, pid = traced(program, tracer, case, *ALL, link=link)
    check_memory(report, expected, pid)
    consistent_memory(report)


@pytest.mark.parametrize("case, allocator", PRELOADED)
def test_preloaded(case, allocator, program, tracer, kernel_log):
    """The numbers are the same for each allocator, whose name replaces glibc's."""
    preload = library(allocator)
    if not preload:
        pytest.skip(f"{ALLOCATORS[allocator][1]} is not here (Debian: {ALLOCATORS[allocator][0]})")
    report, expected, pid = traced(program, tracer, case, *ALL, env={"LD_PRELOAD": preload})
    check_memory(report, expected, pid)
    consistent_memory(report)
    named = {h["allocator"] for m in entries(report, pid=pid) for h in m["hotspots"]}
    assert allocator in named and "libc" not in named
    assert kernel_log.about_uprobes([pid]) == []


@pytest.mark.some(1)
@pytest.mark.parametrize("level", ["tensor", "all"])
def test_gpu(level, program, tracer):
    """Stub libraries: the runtime calls the driver, which is one allocation, also by default. A failed
    call is none."""
    report, expected, pid = traced(program, tracer, "memory_gpu", "--memory", level, "--no-calibrate",
                                   runs=2)
    check_memory(report, expected, pid)
    consistent_memory(report)
    entry, = entries(report, "gpu")
    assert entry["allocator"] == ["cuda"]
    stay, = hotspots(report, "weights_stay", "gpu")
    assert stay["live_bytes"] == 6 << 20 and stay["allocs"] == 6
    assert not hotspots(report, "too_much", "gpu")


def test_untraced_processes_do_not_pay_for_it(program, tracer):
    """A tracepoint of system calls would slow down every thread of the machine."""
    p = program(WORKLOADS / "memory")
    t = tracer(p.pid, *ALL)
    held = {int(number) for kind, number in bpf_objects(t.process.pid) if kind == "link"}
    links = json.loads(subprocess.run([BPFTOOL, "-j", "link", "show"], check=True,
                                      capture_output=True).stdout)
    tracepoints = {link["tp_name"] for link in links if link["id"] in held and "tp_name" in link}
    assert "sched_process_exit" in tracepoints
    assert not [name for name in tracepoints if name.startswith("sys_")]
    t.stop()
    p.finish()


# --- stacks ---

def test_whole_stacks_with_frame_pointers(program, tracer):
    """main → scenario → outer → middle → inner, and two ways there are two hotspots. The program has debug
    information, so the line of the call is named."""
    report, expected, pid = traced(program, tracer, "memory_chain-fp", *ALL, runs=2)
    check_memory(report, expected, pid, stacks=True)
    (spot,) = hotspots(report, "other_outer")
    names = [re.search(r"(chain_\w+|other_outer|scenario|main)\b", frame) for frame in spot["stack"]]
    names = [n[0] for n in names if n and n[0] != "known_main"]
    assert names[:3] == ["chain_inner", "chain_middle", "other_outer"]
    assert names[-1] == "main"
    source = (TOP / "tests/workloads/memory_chain.c").read_text(encoding="utf8")
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "malloc(size)" in text)
    assert re.search(rf"memory_chain\.c:{line}\b", hotspots(report, "chain_inner")[0]["stack"][0])


def test_callers_without_frame_pointers(program, tracer):
    report, expected, pid = traced(program, tracer, "memory_chain", *ALL)
    check_memory(report, expected, pid, stacks=True)
    assert all("chain_inner" in h["stack"][0] for m in entries(report) for h in m["hotspots"])


def test_running_function_is_named(program, tracer):
    """A hotspot has the running traced function, and that function its allocated bytes."""
    report, _, _ = traced(program, tracer, "memory_peak", *ALL, "-F", "memory_peak:holds_*")
    (spot,) = hotspots(report, "holds_at_peak")
    assert spot["function"] == "holds_at_peak"
    rows = {f["name"]: f.get("alloc_bytes") for p in report["processes"] for f in p["functions"]}
    assert rows == {"holds_before": 30000000, "holds_at_peak": 40000000, "holds_after": 20000000}


# --- many, and too many ---

@pytest.mark.long
def test_a_million_live_blocks(program, tracer):
    """All live at once: complete in the report and bounded in the tracer; then all are freed."""
    p = program(WORKLOADS / "memory_many", "1000000")
    t = tracer(p.pid, *ALL)
    p.go()
    anonymous = int(status(t.process.pid, "RssAnon").split()[0]) * 1024
    p.go()
    report = t.stop()
    check_memory(report, p.finish(), p.pid)
    assert anonymous < 256 << 20, "a few dozen bytes a block"


@pytest.mark.some(1)
@pytest.mark.parametrize("ring", ["4K", "64K"])
def test_ring_is_full(ring, program, tracer):
    """The reader is stopped while two threads allocate: counts stay exact, and other values are marked
    as bounds."""
    p = program(WORKLOADS / "memory_threads", "2", "20000")
    t = tracer(p.pid, *ALL, "--ring-size", ring)
    with t.stopped():
        p.go()
    p.go()
    report = t.stop()
    expected = p.finish()
    assert report["losses"]["memory_drops"] > 20000
    for key in ("allocs", "allocated_bytes"):
        assert value_of(report, p.pid, "memory", key) == expected["memory", key]
    (entry,) = entries(report)
    assert entry["lost_allocs"] + entry["lost_frees"] == report["losses"]["memory_drops"]
    frees = entry["frees"] + entry["unknown_frees"]
    assert frees <= expected["memory", "frees"] <= frees + entry["lost_frees"]
    assert entry["bound"] == "both", "live and peak are bounds: allocations and frees are lost"
    assert report["capture"]["partial"]
    assert "lossy" in report["capture"]["partial_reasons"]


def test_a_tight_loop(program, tracer):
    """As fast as two threads can, with a small ring: totals are exact, with or without losses."""
    p = program(WORKLOADS / "memory_threads", "2", "50000")
    t = tracer(p.pid, *ALL, "--ring-size", "64K")
    p.go()
    report = t.stop()
    expected = p.finish()
    for key in ("allocs", "allocated_bytes"):
        assert value_of(report, p.pid, "memory", key) == expected["memory", key]
    if not report["losses"]["memory_drops"]:
        check_memory(report, expected, p.pid)


# --- other tools ---

def heaptrack_costs(folder, cost):
    """{function: cost} of the functions of memory.c, from heaptrack. Costs: allocations, temporary,
    leaked, peak."""
    (data,) = folder.glob("run.*")
    stacks = folder / f"{cost}.txt"
    subprocess.run(["heaptrack_print", "-f", data, "--flamegraph-cost-type", cost, "-F", stacks],
                   check=True, capture_output=True)
    found = {}
    for line in stacks.read_text(encoding="utf8").splitlines():
        stack, _, value = line.rpartition(" ")
        names = re.findall(r"\b(?:(?:leak|only|holds)_\w+|hold)\b", stack)
        if names:  # the innermost caller: heaptrack unwinds without frame pointers
            found[names[-1]] = found.get(names[-1], 0) + int(value)
    return found


@pytest.mark.parametrize("case", ["memory heap", "memory_peak"])
def test_as_heaptrack_sees_it(case, program, tracer, tmp_path):
    """Function by function: allocations, temporary ones, bytes leaked, bytes at the peak."""
    if not shutil.which("heaptrack"):
        pytest.skip("heaptrack is not installed")
    name, *arguments = case.split()
    done = subprocess.run(["heaptrack", "-o", tmp_path / "run", WORKLOADS / name, *arguments],
                          input="go\n", capture_output=True, text=True, timeout=60)
    assert "done" in done.stdout, done.stderr
    report, expected, pid = traced(program, tracer, case, *ALL, runs=1)
    check_memory(report, expected, pid)
    for cost, key in (("allocations", "allocs"), ("leaked", "live_bytes"),
                      ("temporary", "temporary"), ("peak", "live_at_peak_bytes")):
        by_heaptrack = heaptrack_costs(tmp_path, cost)
        ours = {f: sum(h[key] for h in hotspots(report, f)) for f in by_heaptrack}
        assert by_heaptrack or cost == "leaked" or cost == "temporary"
        if cost == "temporary" and name == "memory_peak":
            # heaptrack identifies a block by size and stack: the first freed block of `hold` looks like
            # the last allocated one
            by_heaptrack["hold"] -= 1
        assert ours == by_heaptrack, cost


def test_two_tracers_at_once(program, tracer):
    """Both are exact."""
    p = program(WORKLOADS / "memory_threads", "4", "2000")
    one = tracer(p.pid, *ALL)
    other = tracer(p.pid, *ALL)
    p.go()
    reports = one.stop(), other.stop()
    expected = p.finish()
    for report in reports:
        check_memory(report, expected, p.pid)


def test_replayed(program, tmp_path):
    """A capture's report is the same wherever it is made."""
    p = program(WORKLOADS / "memory")
    capture = tmp_path / "run.perfx"
    t = subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-d", "60", *ALL, "-o", str(capture)],
                         stderr=subprocess.PIPE, text=True)
    try:
        until_attached(t)
        p.go()
        t.send_signal(signal.SIGINT)
        assert t.wait(60) == 0
    finally:
        t.kill()
    expected = p.finish()
    texts = [run("report", capture, "-f", "json").stdout for _ in range(2)]
    assert texts[0] == texts[1]
    check_memory(json.loads(texts[0]), expected, p.pid)


def test_off(program, tracer):
    """No probes and no entries."""
    report, _, _ = traced(program, tracer, "memory", "--memory", "off", "--no-calibrate", "-F",
                          "memory:leak_malloc")
    assert entries(report) == []
    assert {p["name"] for p in report["overhead"]["probes"]} == {"leak_malloc"}


# --- samples ---

SAMPLE_RUNS = 20
SITE = re.compile(r"site_\w$")


@pytest.mark.long
def test_sampled_intervals(program, tracer):
    """The true value is in the interval 19 times out of 20: sixteen sites, from less than one sample to
    hundreds, twenty times. More than four standard deviations below that is a failure."""
    known, p = program(WORKLOADS / "memory_sites"), program(WORKLOADS / "memory_sites")
    known.go()
    truth = known.finish()
    inside, tried, totals = 0, 0, 0
    for _ in range(SAMPLE_RUNS):
        t = tracer(p.pid, "--memory", "sampled=64k", "--no-calibrate")
        p.go()
        report = t.stop()
        (entry,) = entries(report)
        assert entry["sampled"]
        totals += (entry["allocated_bytes_low"] <= truth["memory", "allocated_bytes"]
                   <= entry["allocated_bytes_high"])
        for (name, key), value in truth.items():
            if not SITE.match(name) or key != "allocated_bytes":
                continue
            spots = hotspots(report, name)
            tried += 1
            if spots:
                (spot,) = spots
                inside += spot["allocated_bytes_low"] <= value <= spot["allocated_bytes_high"]
            else:  # sites without samples: less than 3.69 on average (exact, Poisson)
                inside += value <= 3.69 * 65536
    assert totals >= 16, f"{totals} of {SAMPLE_RUNS} totals"
    assert tried == SAMPLE_RUNS * 16
    assert inside >= tried * 0.95 - 4 * (tried * 0.95 * 0.05) ** 0.5, f"{inside} of {tried}"


def test_sampled_is_unbiased(program, tracer):
    """Four runs in one: the estimate is within four standard deviations of the truth."""
    report, expected, pid = traced(program, tracer, "memory_sites", "--memory", "sampled=64k",
                                   "--no-calibrate", runs=4)
    (entry,) = entries(report)
    truth = expected["memory", "allocated_bytes"]
    # for blocks far smaller than 64 KiB: one sample per 64 KiB, standard deviation 1/√n
    spread = 4 * (truth * 65536) ** 0.5
    assert abs(entry["allocated_bytes"] - truth) < spread
    assert entry["frees"] <= entry["allocs"]


# --- no harm ---

# mimalloc's operator new ends the program if it fails, untraced too
FAILING = [pytest.param(case, allocator, marks=[pytest.mark.long] if allocator != "libc" else [])
           for allocator in ["libc", *ALLOCATORS]
           for case in ("memory_new throw", "memory_new handler", "memory_new jump",
                        "memory_realloc failing")
           if allocator != "mimalloc" or "new" not in case]


# test_known_memory and test_preloaded run the same programs
@pytest.mark.some(2)
@pytest.mark.parametrize("case, allocator", FAILING)
def test_goes_on(case, allocator, links, program, tracer, kernel_log):
    """bad_alloc through operator new, and a new_handler that throws or jumps: the program's own checks
    pass."""
    preload = {} if allocator == "libc" else {"LD_PRELOAD": library(allocator)}
    if preload and not preload["LD_PRELOAD"]:
        pytest.skip(f"{ALLOCATORS[allocator][1]} is not here (Debian: {ALLOCATORS[allocator][0]})")
    for link in links:
        _, _, pid = traced(program, tracer, case, *ALL, link=link, env=preload)
        assert kernel_log.about_uprobes([pid]) == []


@pytest.mark.some(1)
@pytest.mark.parametrize("delay_ms", [200, 50, 500])
def test_tracer_is_killed(delay_ms, program):
    """SIGKILL: the program continues, its code is unpatched, and the kernel has no objects of the
    tracer."""
    p = program(WORKLOADS / "memory_threads", "2", "1000")
    t = subprocess.Popen([PERFX, "-p", str(p.pid), *ALL], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    end = time.monotonic() + delay_ms / 1000
    objects = set()
    while time.monotonic() < end:
        objects |= bpf_objects(t.pid)
    p.go()
    t.kill()
    t.wait()
    p.go()
    assert wait_for(lambda: patched_bytes(p.pid) == 0), "breakpoints are left"
    assert wait_for(lambda: not any(bpf_object_exists(*o) for o in objects)), "BPF objects are left"
    p.finish()


GROW = ["list_of_records", "cache_by_key", "cache_of_function", "strings", "arrays", "losses",
        "vector_that_grows", "map_that_grows", "forgets_to_delete"]
HEALTHY = ["warms_up", "clears_each_epoch", "replay_buffer", "reads_at_the_start",
           "cache_that_is_full", "maps_a_file", "buffers_of_any_size", "vector_that_is_cleared",
           "window_of_strings"]
IN_C = GROW[-3:] + HEALTHY[-2:]
NEEDS = {"arrays": "numpy", "losses": "torch"}
PYTHON = "/usr/bin/python3"


def growing_program(start_program, mode):
    if mode in IN_C:
        return start_program(WORKLOADS / "growth", mode)
    return start_program(PYTHON, TOP / "tests/workloads/growth.py", mode)


def growth_of(report, pid):
    (process,) = [p for p in report["processes"] if p["pid"] == pid]
    return [f for f in process["findings"]
            if f["kind"] in ("MemoryLeak", "MemoryGrowth", "UntracedMemory")]


def says_where(finding):
    """A place in the program, or the option that shows it."""
    return re.search(r"growth\.(py|cc):\d+", finding["subject"]) or \
        re.search(r"--memory (all|tensor)", finding["suggestion"])


@pytest.mark.long
@pytest.mark.alone
def test_growth_stands_out(program, tracer):
    """About 200 KiB to 2 MiB a second for 12 s, by default options: endless growth has a finding with a
    rate, memory that only fills up has none."""
    modes = [mode for mode in GROW + HEALTHY if mode not in NEEDS or not subprocess.run(
        [PYTHON, "-c", f"import {NEEDS[mode]}"], capture_output=True).returncode]
    programs = {mode: growing_program(program, mode) for mode in modes}
    trace = tracer(",".join(str(p.pid) for p in programs.values()), "--no-calibrate", budget=True)
    for p in programs.values():
        p.say("go")
    time.sleep(12)
    report = trace.stop()
    found = {mode: growth_of(report, p.pid) for mode, p in programs.items()}
    assert [mode for mode in modes if found[mode]] == [mode for mode in GROW if mode in modes], found
    for findings in found.values():
        for finding in findings:
            assert re.search(r"[KM]iB/s", finding["evidence"]) and says_where(finding), finding
