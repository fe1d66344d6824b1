# SPDX-License-Identifier: BSD-2-Clause
"""GPU work, counted at its calls: empty libraries have the names and calling convention of CUDA's. No
GPU is needed or sampled."""
import collections

import pytest

from conftest import LINKS, WORKLOADS, functions

ZERO = [0, 0, 0]


def shape(sizes):
    return "x".join(str(n) for n in sizes)


def launch_key(row):
    """The key as the workload prints it; a graph has no shape."""
    name = row["name"].replace(" ", "_")
    if not any(row.get("grid", ZERO)):
        return name
    return f"{name},{shape(row['grid'])},{shape(row['block'])},{row['shared_bytes']}"


def counted(report):
    """Work of all processes, by the workload's keys; times of waits separately."""
    found, waits = collections.Counter(), collections.Counter()
    for process in report["processes"]:
        gpu = process.get("gpu", {"kernels": [], "copies": [], "syncs": []})
        for row in gpu["kernels"]:
            found["launches", launch_key(row)] += row["calls"]
        for row in gpu["copies"]:
            found["copies", row["direction"]] += row["calls"]
            found["bytes", row["direction"]] += row["bytes"]
        for row in gpu["syncs"]:
            if not row["name"].startswith(("cudaMemcpy", "cuMemcpy")):
                found["calls", row["name"]] += row["calls"]
                waits["own_ns", row["name"]] += row["wait_ns"]
    return found, waits


def check(report, expected):
    found, waits = counted(report)
    own = {key: expected.pop(key) for key in list(expected) if key[0] == "own_ns"}
    assert found == expected
    assert waits.keys() == own.keys()
    # by the program's clock the probes are in it
    for key, ns in own.items():
        assert ns * 0.95 <= waits[key] <= ns, key
    assert report["losses"]["gpu_keys"] == report["losses"]["read_faults"] == 0
    assert report["losses"]["unmatched_entries"] == report["losses"]["unmatched_returns"] == 0


@pytest.mark.kernel
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("workload", ["gpu_calls", "gpu_driver"])
def test_counts(workload, link, program, tracer, links):
    """Launches by kernel and shape, copies by direction, memsets and waits are exact: from two threads
    and children, by runtime and driver, with names given before and after."""
    if link not in links:
        pytest.skip(f"no {link} links here")
    p = program(WORKLOADS / workload)
    t = tracer(p.pid, link=link)
    p.go(2)
    report = t.stop()
    check(report, p.finish())
    gpu = report["processes"][0]["gpu"]
    assert gpu["level"] == 0 and gpu["drops"] == 0
    assert gpu["launches"] == sum(row["calls"] for row in gpu["kernels"])
    unknown = [row["name"] for row in gpu["kernels"] if " at 0x" in row["name"]]
    assert sorted(set(name.split()[0] for name in unknown)) == ["graph", "kernel"]


def test_at_exits(program, tracer):
    """Timed at exits, a driver call inside a runtime call is a separate call, and its work still counts
    once."""
    p = program(WORKLOADS / "gpu_calls")
    t = tracer(p.pid, "--return", "exit")
    p.go()
    report = t.stop()
    check(report, p.finish())


def test_nested_calls(program, tracer):
    """The runtime's driver calls belong to the runtime's call, unless -F names both."""
    p = program(WORKLOADS / "gpu_calls")
    t = tracer(p.pid)
    p.go()
    report = t.stop()
    assert sum(f["calls"] for f in functions(report, "cuStreamSynchronize")) == 3
    t = tracer(p.pid, "--gpu", "0", "-F", "libcu*.so:cu*StreamSynchronize")
    p.go()
    report = t.stop()
    assert sum(f["calls"] for f in functions(report, "cuStreamSynchronize")) == 6
    assert counted(report)[0]["calls", "cuStreamSynchronize"] == 3
    p.finish()


def test_too_many_shapes(program, tracer):
    """Without room for all shapes, the rest is counted without shapes: no launch is lost."""
    p = program(WORKLOADS / "gpu_calls", "many")
    t = tracer(p.pid)
    p.go(2)
    report = t.stop()
    expected = p.finish()["launches", "all"]
    rows = report["processes"][0]["gpu"]["kernels"]
    assert sum(row["calls"] for row in rows) == expected
    shapeless = [row for row in rows if not any(row.get("grid", ZERO))]
    assert shapeless and len(rows) > 10000
    assert all(row["name"].startswith("kernel at 0x") for row in rows)
    assert report["losses"]["gpu_keys"] == 0


def test_switched_off(program, tracer):
    p = program(WORKLOADS / "gpu_calls")
    t = tracer(p.pid, "--gpu", "off")
    p.go()
    report = t.stop()
    assert not any("gpu" in process for process in report["processes"])
    assert not any(f["name"].startswith(("cuda", "cuLaunch", "cuMemcpy"))
                   for process in report["processes"] for f in process["functions"])


def test_beside_patterns(program, tracer):
    """With -F, only if --gpu 0 is given."""
    p = program(WORKLOADS / "gpu_calls")
    t = tracer(p.pid, "-F", "gpu_calls:wait_for_work")
    p.go()
    report = t.stop()
    assert not any("gpu" in process for process in report["processes"])
    t = tracer(p.pid, "-F", "gpu_calls:wait_for_work", "--gpu", "0")
    p.go()
    report = t.stop()
    expected = p.finish()
    assert counted(report)[0]["launches", "scale,4x2x3,32x4x2,1024"] == 9
    assert expected["launches", "scale,4x2x3,32x4x2,1024"] == 18
