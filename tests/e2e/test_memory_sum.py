# SPDX-License-Identifier: BSD-2-Clause
"""The memory sum: each part is what the program itself and the kernel say it is."""
import json
import re
import subprocess
import sys

import pytest
from conftest import PERFX, TOP, WORKLOADS, run
from memories import ALLOCATORS, library

MIB = 1 << 20
PARTS = ("Rss", "Pss", "Private_Clean", "Private_Dirty", "AnonHugePages")


def smaps(pid):
    """Sums over the mappings of a process, in bytes: the kernel's own count."""
    sums = dict.fromkeys(PARTS, 0)
    with open(f"/proc/{pid}/smaps", encoding="utf8") as lines:
        for line in lines:
            field = re.match(r"(\w+): +(\d+) kB", line)
            if field and field[1] in sums:
                sums[field[1]] += int(field[2]) << 10
    return sums


def near(got, expected, percent=1):
    """Within a percent, or what a process uses beside its known memory."""
    return abs(got - expected) <= max(expected * percent / 100, MIB / 2)


def record(pid, *options):
    """A report of a short recording."""
    done = subprocess.run([PERFX, "-p", str(pid), "-d", "0.3", "--no-calibrate", "-f", "json", *options],
                          check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sum_of(report, pid, moment="end"):
    process, = (p for p in report["processes"] if p["pid"] == pid)
    return process["memory_sum"][moment]


def check_kernel(got, pid):
    """All parts together, against smaps."""
    kernel = smaps(pid)
    assert sum(got["resident"].values()) == got["resident_bytes"]
    assert near(got["resident_bytes"], kernel["Rss"])
    assert near(got["proportional_bytes"], kernel["Pss"])
    assert near(got["private_bytes"], kernel["Private_Clean"] + kernel["Private_Dirty"])


def test_each_part(program):
    """A parent and its forked child, whose copies are neither the parent's nor new."""
    p = program(WORKLOADS / "memory_parts")
    report = record(p.pid)
    p.go()
    parent = sum_of(report, p.pid)
    child_pid = next(q["pid"] for q in report["processes"] if q["pid"] != p.pid)
    child = sum_of(report, child_pid)
    check_kernel(parent, p.pid)
    check_kernel(child, child_pid)
    # the kernel does not count those that it has split
    assert near(parent.get("huge_page_bytes", 0), smaps(p.pid)["AnonHugePages"], 10)
    expected = p.finish()
    malloc = parent["malloc"]
    assert malloc["arenas"] == 2 and "rough" not in malloc
    for key in ("held_bytes", "free_bytes", "mapped_bytes"):
        assert near(malloc[key], expected["malloc", key]), key
    resident = parent["resident"]
    # all of the heap was touched
    assert near(resident["heap_used"], malloc["held_bytes"] - malloc["free_bytes"])
    assert near(resident["heap_free"], malloc["free_bytes"], 2)
    for part in ("shared", "stacks", "heap_mapped", "not_explained"):
        assert near(resident[part], expected["parent", part]), part
    # by a sample of its pages
    assert near(resident.get("huge_padding", 0), expected["parent", "huge_padding"], 3)
    assert near(child["resident"]["copied"], expected["child", "copied"])
    at_fork = sum(resident[part] for part in ("heap_used", "heap_free", "heap_mapped", "stacks"))
    at_fork += 52 * MIB  # without an owner
    assert near(child["resident"]["inherited"], at_fork - expected["child", "copied"])
    # reserved, not touched: no peak
    assert parent["reserved_bytes"] > 72 << 30 > 100 * parent["resident_bytes"]
    # the job: what both share is counted once
    job = report["memory_sum"]["end"]
    assert job["processes"] == 2 and sum(job["parts"].values()) == job["bytes"]
    assert near(job["bytes"], parent["proportional_bytes"] + child["proportional_bytes"])
    assert near(job["bytes"], parent["resident_bytes"] + expected["child", "copied"], 2)


@pytest.mark.some(1)
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_heaps_of_other_allocators(program, allocator):
    """The allocator's own statistics, to the byte; mimalloc's headers of segments are no blocks."""
    preload = library(allocator)
    if not preload:
        pytest.skip(f"no lib{allocator} here")
    p = program(WORKLOADS / "memory_allocator", env={"LD_PRELOAD": preload})
    got = sum_of(record(p.pid), p.pid)
    check_kernel(got, p.pid)
    p.go()
    expected = p.finish()
    heap = got["other_heaps"]
    used = heap["held_bytes"] - heap["free_bytes"]
    assert heap["libraries"] == allocator and "unread_heaps" not in got
    if allocator == "mimalloc":
        assert near(used, expected["heap", "used_bytes"])
    else:
        assert {key: heap[key] for key in ("held_bytes", "free_bytes")} == \
               {key: expected["heap", key] for key in ("held_bytes", "free_bytes")}
    # nearly all of it was touched
    assert near(got["resident"]["heap_used"], used, 15)
    assert got["resident"]["heap_free"] > 64 * MIB
    assert got["resident"]["not_explained"] < 4 * MIB


def test_reading_copies_no_pages(program):
    """A page that is pinned while it is shared would be copied: a child's private memory would grow by
    being read."""
    p = program(WORKLOADS / "memory_parts")
    report = record(p.pid)
    child = next(q["pid"] for q in report["processes"] if q["pid"] != p.pid)
    def private():
        sums = smaps(child)
        return sums["Private_Clean"] + sums["Private_Dirty"]  # such a copy is clean

    before = private()
    for _ in range(2):
        record(p.pid)
    assert private() - before < MIB / 4
    p.go()
    p.finish()


def test_python_blocks():
    """The interpreter counts its blocks by the same pools."""
    with subprocess.Popen([sys.executable, TOP / "tests/workloads/memory_python.py"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as python:
        assert python.stdout.readline() == "ready\n"
        got = sum_of(record(python.pid, "--memory", "tensor"), python.pid)
        _, stats = python.communicate("\n")
    # class, size, pools, blocks in use, free blocks
    blocks = sum(int(row[1]) for row in re.findall(r"^ +\d+ +\d+ +(\d+) +(\d+) +\d+$", stats, re.M))
    used, free, arenas = (int(re.search(rf"{words} += +([\d,]+)$", stats, re.M)[1].replace(",", ""))
                          for words in ("bytes in allocated blocks", "bytes in available blocks", "Total"))
    resident = got["resident"]
    assert abs(got["python_blocks"] - blocks) <= 0.01 * blocks
    assert near(resident["python_used"], used)
    # also headers, rounding, pools without a block
    assert free <= resident["python_free"] <= arenas - used


@pytest.mark.alone  # it is read within 2 % of a CPU: seldom, where CPUs are busy
def test_workers_that_read_a_list_copy_it(tmp_path):
    """Reference counts are in the objects: nothing is allocated, and each worker's own memory grows."""
    with subprocess.Popen([sys.executable, TOP / "tests/workloads/memory_workers.py"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as python:
        pids = [int(word) for word in python.stdout.readline().split()]
        capture = tmp_path / "workers.perfx"
        subprocess.run([PERFX, "record", "-p", str(python.pid), "-d", "2.5", "--no-calibrate", "-o", capture],
                       check=True, capture_output=True)
        python.communicate("\n")
    report = json.loads(run("report", capture, "-f", "json").stdout)
    workers = [p for p in report["processes"] if p["pid"] in pids]
    assert len(workers) == 2
    for worker in workers:
        begin, end = (worker["memory_sum"][moment]["resident"] for moment in ("begin", "end"))
        copied = end["copied"] - begin.get("copied", 0)
        assert copied > 20 * MIB
        # the same pages were shared before
        assert near(begin["inherited"] - end["inherited"], copied, 5)
    found = [f for p in report["processes"] for f in p["findings"] if f["kind"] == "CopyOnWrite"]
    assert len(found) == 1 and "copies grow by" in found[0]["evidence"]
    assert "2 processes of this parent" in found[0]["evidence"]
    text = run("report", capture, "-f", "md").stdout
    assert re.search(r"\| +parent's, copied since the fork", text) and "shared memory counted once" in text
    trace = tmp_path / "workers.pftrace"
    assert run("export", capture, "-f", "perfetto", "-o", trace).returncode == 0
    assert trace.read_bytes().count(b"memory: parent's, copied since the fork") == 2
    # one figure for each process, an area for each part
    figures = re.findall(r'<figure class="series stacked">.*?</figure>', run("report", capture, "-f", "html").stdout,
                         re.S)
    assert len(figures) == 3 and all(figure.count("<path class=m") == 13 for figure in figures)


def test_open_files_near_their_limit():
    code = ("import os, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200));"
            "files = [os.dup(0) for _ in range(200 - 8 - len(os.listdir('/proc/self/fd')))];"
            "print(len(os.listdir('/proc/self/fd')) - 1, flush=True); input()")
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as python:
        count = int(python.stdout.readline())
        report = record(python.pid)
        python.communicate("\n")
    found, = (f for p in report["processes"] for f in p["findings"] if f["kind"] == "ResourceLimit")
    assert found["evidence"].startswith(f"{count} of 200 ") and "RLIMIT_NOFILE" in found["evidence"]
    assert found["severity"] == "high"
