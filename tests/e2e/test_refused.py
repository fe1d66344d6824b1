# SPDX-License-Identifier: BSD-2-Clause
"""A kernel that refuses one BPF program (workloads/lib/refuse.c): its data is missing, with one line on
stderr and in the report, and the rest is exact. Also a machine without free threads, processes or
memory: every command ends by itself."""
import json
import resource

import pytest
from conftest import (WORKLOADS, Program, check_expectations, consistent, functions, run)

REASON = "this kernel rejects the BPF program for it"
PARTS = {"perfx_on_memory": "allocations", "perfx_on_send": "network I/O"}
MARKS = "annotated ranges and values"


def refuse(monkeypatch, program):
    monkeypatch.setenv("LD_PRELOAD", str(WORKLOADS / "refuse.so"))
    monkeypatch.setenv("REFUSE_PROGRAM", program)


def not_attached(report):
    return {n["name"]: n["reason"] for n in report["not_attached"]}


def refusals(tracer):
    return [line for line in tracer.lines if "rejects" in line and "tracing" not in line]


def refusal(part):
    return (f"perfx-trace: {part}: not recorded: this kernel rejects the BPF program for it "
            "(PERFX_DEBUG=1 shows why)\n")


@pytest.mark.parametrize("refused", PARTS)
def test_the_rest_is_exact(monkeypatch, program, tracer, refused):
    p = program(WORKLOADS / "calls")
    refuse(monkeypatch, refused)
    t = tracer(p.pid, "--no-calibrate", "-F", "calls:{outer,middle,leaf}")
    p.go()
    expected = p.finish()
    report = t.stop()
    consistent(report)
    names = ("outer", "middle", "leaf")
    check_expectations(report, {k: v for k, v in expected.items() if k[0] in names})
    assert expected["leaf", "calls"] > 0
    assert not_attached(report)[PARTS[refused]] == REASON
    assert refusals(t) == [refusal(PARTS[refused])]


def test_marks_without_their_program(monkeypatch, program, tracer):
    p = program(WORKLOADS / "annotations", "tasks")
    refuse(monkeypatch, "perfx_on_mark")
    t = tracer(p.pid, "--no-calibrate")
    p.go()
    p.finish()
    report = t.stop()
    (entry,) = [n for n in report["not_attached"] if n["reason"] == REASON]
    assert entry["count"] > 1  # the part, and each marking function
    assert refusals(t) == [refusal(MARKS)]
    assert not any(q["name"].startswith("perfx:") for q in report["overhead"]["probes"])
    assert not functions(report, "task")


def test_a_program_that_is_not_needed_is_not_loaded(monkeypatch, program, tracer):
    p = program(WORKLOADS / "calls")
    refuse(monkeypatch, "perfx_on_mark")
    t = tracer(p.pid, "--no-calibrate", "-F", "calls:leaf", "--memory", "off")
    p.go(1)
    p.finish()
    assert not not_attached(t.stop())
    assert not refusals(t)


def test_what_nothing_goes_without(monkeypatch):
    p = Program(WORKLOADS / "calls")
    refuse(monkeypatch, "perfx_on_fork")
    done = run("-p", p.pid, "-d", "100ms")
    p.kill()
    assert done.returncode == 1
    assert done.stderr == ("perfx-trace: cannot load the BPF programs: Invalid argument: see "
                           "perfx-trace doctor\n")


def test_calls_without_their_program(monkeypatch):
    p = Program(WORKLOADS / "calls")
    refuse(monkeypatch, "perfx_on_hit")  # session links have another message
    done = run("-p", p.pid, "-d", "100ms", "--no-calibrate", "-F", "calls:leaf", "--link", "perf", "-f", "json")
    p.kill()
    assert done.returncode == 0, done
    assert not_attached(json.loads(done.stdout))["leaf"] == REASON


DEADLINE_S = 60  # generous: the test is that the command ends, not how fast


def ends(monkeypatch, refused, *arguments):
    """The command ends by itself even if a resource is refused, and gives the reason if it failed."""
    monkeypatch.setenv("LD_PRELOAD", str(WORKLOADS / "refuse.so"))
    name, _, first = refused.partition("=")
    monkeypatch.setenv(name, first)
    done = run(*arguments, "--no-calibrate", timeout=DEADLINE_S)
    assert done.returncode in (0, 1), (refused, done)
    assert done.returncode == 0 or "perfx-trace: " in done.stderr, (refused, done)
    return done


@pytest.mark.some(3)
@pytest.mark.parametrize("refused", [f"REFUSE_THREADS={n}" for n in range(1, 8)] + ["REFUSE_PROCESSES=1"]
                         + [f"REFUSE_MEMORY={4 ** n}" for n in range(6)])
def test_a_flight_recorder_ends(monkeypatch, tmp_path, program, refused):
    p = program(WORKLOADS / "calls")
    file = tmp_path / "last.perfx"
    done = ends(monkeypatch, refused, "record", "-p", p.pid, "--flight", "2s", "-d", "300ms", "-F", "calls:leaf",
                "-o", file)
    assert file.exists() == (done.returncode == 0), done
    if done.returncode:
        assert sum(line.startswith(f"perfx-trace: {file}: ") for line in done.stderr.splitlines()) <= 1, done


@pytest.mark.some(2)
@pytest.mark.parametrize("mib", [100, 200, 60, 150])
def test_a_flight_recorder_with_little_memory_ends(tmp_path, program, mib):
    """It limits the address space, which thread stacks and shared tables also need."""
    p = program(WORKLOADS / "calls")
    file = tmp_path / "last.perfx"
    done = run("record", "-p", p.pid, "--flight", "2s", "-d", "300ms", "-F", "calls:leaf", "--no-calibrate", "-o", file,
               timeout=DEADLINE_S,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))
    assert (done.returncode, file.exists()) in ((0, True), (1, False)), done
    assert done.stderr.startswith("perfx-trace: "), done


@pytest.mark.some(3)
@pytest.mark.parametrize("refused", ["REFUSE_THREADS=1", "REFUSE_THREADS=2", "REFUSE_THREADS=4", "REFUSE_MEMORY=1",
                                     "REFUSE_MEMORY=256"])
@pytest.mark.parametrize("arguments", [("record", "-o", "out.perfx"), ("serve", "--listen", "127.0.0.1:0"),
                                       ("-f", "json")])
def test_others_end(monkeypatch, tmp_path, program, refused, arguments):
    p = program(WORKLOADS / "calls")
    monkeypatch.chdir(tmp_path)
    ends(monkeypatch, refused, *arguments, "-p", p.pid, "-d", "300ms", "-F", "calls:leaf")


def test_a_program_that_cannot_be_started_is_named(monkeypatch):
    # kernel features are tested in a separate process, once per boot
    assert run("run", "-d", "50ms", "--", WORKLOADS / "calls").returncode == 0
    done = ends(monkeypatch, "REFUSE_PROCESSES=1", "run", "-d", "1s", "--", WORKLOADS / "calls")
    assert done.returncode == 1
    assert "calls: cannot be started: Resource temporarily unavailable" in done.stderr


def test_samples_that_have_no_thread_are_missed(monkeypatch, program):
    """The report says that waiting threads are not sampled."""
    p = program(WORKLOADS / "calls")
    done = ends(monkeypatch, "REFUSE_THREADS=1", "-p", p.pid, "-d", "300ms", "-F", "calls:leaf", "-f", "json")
    assert done.returncode == 0
    assert "threads that wait are not sampled: no thread for it" in done.stderr
    (process,) = json.loads(done.stdout)["processes"]
    assert process["samples"]["off_cpu_hz"] == 0
    assert "no thread for it" in process["samples"]["why"]
