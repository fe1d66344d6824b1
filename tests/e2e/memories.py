# SPDX-License-Identifier: BSD-2-Clause
"""Compares the report's memory with the expectations of a program (tests/workloads/memory.h)."""
import os
import re

# Debian's package and the library to preload.
ALLOCATORS = {"jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
              "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
              "mimalloc": ("libmimalloc2.0", "libmimalloc.so.2.0")}

# Words in memory.h's expectations that are not functions, and their domain.
DOMAINS = {"memory": "host", "mallinfo": "host", "tensor": "tensor", "gpu": "gpu"}


def library(allocator):
    """The library's path, or None."""
    folder = next((d for d in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                               "/usr/lib") if os.path.exists(f"{d}/{ALLOCATORS[allocator][1]}")), None)
    return folder and f"{folder}/{ALLOCATORS[allocator][1]}"


def entries(report, domain="host", pid=None):
    """The memory entries of one domain, of all processes or of those of one pid."""
    return [m for p in report["processes"] if pid in (None, p["pid"])
            for m in p.get("memory", []) if m["domain"] == domain]


def hotspots(report, function, domain="host"):
    """Hotspots with a function in their stack, in all processes."""
    word = re.compile(rf"(^|\W){re.escape(function)}(\W|$)")
    return [h for m in entries(report, domain) for h in m["hotspots"]
            if any(word.search(frame) for frame in h["stack"])]


def value_of(report, pid, name, key):
    """The report's value for an expectation's name and key."""
    if name in DOMAINS:
        return sum(m[key] for m in entries(report, DOMAINS[name], pid))
    return sum(h[key] for h in hotspots(report, name))


def is_met(got, bound, value):
    return got >= value if bound == "min" else got <= value if bound == "max" else got == value


def complain(report, expected, pid, stacks):
    """Differences from the program's expectations, as lines. stacks: the whole chain of callers is
    expected."""
    for (name, key), value in expected.items():
        key, _, of = key.partition("@")
        bound = key[-3:] if key.endswith(("_min", "_max")) else ""
        key = key.removesuffix("_" + bound)
        if key.startswith("whole_"):
            if not stacks:
                continue
            key = key.removeprefix("whole_")
        got = value_of(report, int(of) if of else pid, name, key)
        if not is_met(got, bound, value):
            yield f"{name} {key} {of}: {got:,}, must be {bound or 'equal to'} {value:,}"


def check_memory(report, expected, pid, stacks=False):
    """Values are equal, and nothing was lost."""
    losses = {k: v for k, v in report["losses"].items()
              if k in ("memory_drops", "map_full", "control_drops") and v}
    assert expected
    wrong = list(complain(report, expected, pid, stacks))
    assert not wrong and not losses, "\n".join(wrong + [f"lost: {losses}"])


def consistent_memory(report):
    """Checks that hold for every exact entry."""
    for m in entries(report) + entries(report, "tensor") + entries(report, "gpu"):
        assert m["hotspots_left_out"] == 0
        if m["sampled"]:
            continue
        assert sum(s["allocs"] for s in m["sizes"]) == m["allocs"]
        assert "mmap" in m["allocator"] or m["current_count"] == m["allocs"] - m["frees"]
        for key in ("allocs", "allocated_bytes"):
            assert sum(h[key] for h in m["hotspots"]) == m[key], (m["domain"], key)
        frees = sum(h["frees"] for h in m["hotspots"])
        # one munmap may unmap pages of several mappings
        assert frees >= m["frees"] if "mmap" in m["allocator"] else frees == m["frees"]
        assert sum(h["live_bytes"] for h in m["hotspots"]) == m["current_bytes"]
        assert sum(h["live_at_peak_bytes"] for h in m["hotspots"]) == m["peak_bytes"]
        assert m["current_bytes"] <= m["peak_bytes"] <= m["allocated_bytes"]
