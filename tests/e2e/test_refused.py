# SPDX-License-Identifier: BSD-2-Clause
"""A kernel that refuses one BPF program (workloads/lib/refuse.c): what that one is for is missing, said in
one line and in the report, and the rest is as exact as ever."""
import pytest
from conftest import (WORKLOADS, Program, check_expectations, consistent, functions, run)

REASON = "this kernel rejects the BPF program for it"
PARTS = {"perfx_on_mark": "annotated ranges and values", "perfx_on_memory": "allocations",
         "perfx_on_send": "network I/O"}


def refuse(monkeypatch, program):
    monkeypatch.setenv("LD_PRELOAD", str(WORKLOADS / "refuse.so"))
    monkeypatch.setenv("REFUSE_PROGRAM", program)


def not_attached(report):
    return {n["name"]: n["reason"] for n in report["not_attached"]}


@pytest.mark.parametrize("refused", PARTS)
def test_the_rest_is_exact(monkeypatch, program, tracer, refused):
    p = program(WORKLOADS / "calls")
    refuse(monkeypatch, refused)
    t = tracer(p.pid, "--no-calibrate", "-F", "calls:{outer,middle,leaf}")
    p.go(3)
    expected = p.finish()
    report = t.stop()
    consistent(report)
    names = ("outer", "middle", "leaf")
    check_expectations(report, {k: v for k, v in expected.items() if k[0] in names})
    assert expected["leaf", "calls"] > 0
    assert not_attached(report)[PARTS[refused]] == REASON
    said = [line for line in t.lines if "rejects" in line and "tracing" not in line]
    assert said == [f"perfx-trace: {PARTS[refused]}: not recorded: this kernel rejects the BPF "
                    "program for it (PERFX_DEBUG=1 shows why)\n"]


def test_marks_without_their_program(monkeypatch, program, tracer):
    p = program(WORKLOADS / "annotations", "tasks")
    refuse(monkeypatch, "perfx_on_mark")
    t = tracer(p.pid, "--no-calibrate")
    p.go()
    p.finish()
    report = t.stop()
    (entry,) = [n for n in report["not_attached"] if n["reason"] == REASON]
    assert entry["count"] > 1  # the part, and each marking function
    assert not any(q["name"].startswith("perfx:") for q in report["overhead"]["probes"])
    assert not functions(report, "task")


def test_what_nothing_goes_without(monkeypatch):
    p = Program(WORKLOADS / "calls")
    refuse(monkeypatch, "perfx_on_hit")
    done = run("-p", p.pid, "-d", "1s")
    p.kill()
    assert done.returncode == 1
    assert done.stderr == ("perfx-trace: cannot load the BPF programs: Invalid argument: see "
                           "perfx-trace doctor\n")
