# SPDX-License-Identifier: BSD-2-Clause
"""Processes and mappings that appear while tracing: the cost of following them, and when they are
traced."""
import contextlib
import os
import shutil
import subprocess
import sys
import time

import pytest
from conftest import WORKLOADS, Program, ended, functions, patched_bytes, run, total, wait_for

QUICK = ["--no-calibrate"]


def looks(report):
    """Numbers of scans of traced processes, and of reads of other processes' mappings."""
    overhead = report["overhead"]
    return overhead["tracer_looks"], overhead["tracer_strangers_read"]


@pytest.mark.parametrize("kind", ["--anonymous", "--files", "--forks"])
def test_what_is_known_is_not_looked_at_again(kind, program, tracer):
    """Without new mappings, 3,000 times or by 200 children, neither other processes of this machine nor
    code without a file nor a child are scanned again, although libc is attached by process; a file that
    is mapped again and again is scanned at a bounded rate."""
    p = program(WORKLOADS / "maps_often", kind)
    t = tracer(p.pid, *QUICK, "-F", "maps_often:work", "--memory", "all")
    p.go()
    expected = p.finish()
    report = t.stop()
    assert total(report, "work", "calls") == expected["work", "calls"]
    own, strangers = looks(report)
    assert strangers < 1000, "one pass over /proc at the start"
    assert own < {"--anonymous": 20, "--files": 1500, "--forks": 20}[kind]


LIVES = """
import os, sys, time
sys.stdin.readline()
for life in [0.06] * 8 + [1]:
    if not os.fork():
        time.sleep(life); os.getppid(); os._exit(0)
    os.wait()
"""


def test_children_that_end_soon(tracer):
    """Every process maps libc, so each child would get its own links, which cost its parent's next fork
    more than a very short child is worth. A child that lives longer gets them."""
    forks = subprocess.Popen(["/usr/bin/python3", "-c", LIVES], stdin=subprocess.PIPE, text=True)
    try:
        t = tracer(forks.pid, *QUICK, "-F", "libc*:getppid", "--memory", "off")
        forks.communicate("\n", timeout=60)
        report = t.stop()
    finally:
        forks.kill()
    children = [p for p in report["processes"] if p["pid"] != forks.pid]
    calls = [sum(f["calls"] for f in p["functions"]) for p in children]
    assert len(calls) == 9
    assert calls[1:] == [0] * 7 + [1]
    assert all(p["ended_unseen_ns"] for p in children[1:-1])


def dropped_mappings(report):
    return [row["reason"] for row in report["not_attached"] if row["name"] == "files that are mapped for a moment"]


@pytest.mark.parametrize("runs", [False, True])
def test_others_map_more_than_the_kernel_reports(runs, program, tracer):
    """After dropped reports, only a traced program that ran meanwhile may have unknown mappings."""
    target, other = program(WORKLOADS / "naps"), program(WORKLOADS / "maps_often", "--files")
    t = tracer(target.pid, *QUICK, "-F", "naps:nap")
    with t.stopped():
        other.go(3)
        if runs:
            target.go()
    for _ in range(2):  # the kernel reports the number of dropped reports with the next one
        time.sleep(0.1)
        other.go()
    report = t.stop()
    assert len(dropped_mappings(report)) == runs


def test_a_program_that_was_not_mapped_before(tracer, tmp_path):
    """Its file is attached once the tracer knows it. The report says how late that was, and that two
    processes had ended before, while the tracer was stopped."""
    names = ["new-a", "new-b", "new-c"]
    for name in names:
        shutil.copy(WORKLOADS / "calls", tmp_path / name)
    shell = subprocess.Popen(
        ["sh", "-c", 'read x; echo go | ./new-a >out; echo go | ./new-b >out; echo done; exec ./new-c'],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=tmp_path)
    try:
        t = tracer(shell.pid, *QUICK, "-F", "new-*:outer", "--capture", tmp_path / "late.perfx")
        with t.stopped():
            shell.stdin.write("\n")
            assert shell.stdout.readline() == "done\n"
            assert shell.stdout.readline() == f"ready {shell.pid}\n"
        assert wait_for(lambda: patched_bytes(shell.pid, "/new-c")), "libc's probes are there before"
        shell.stdin.write("go\n")
        assert shell.stdout.readline() == "done\n"
        shell.stdin.close()
        assert ended(shell) == 0
        report = t.stop()
    finally:
        shell.kill()
    assert total(report, "outer", "calls") == 1000
    (late,) = [row for p in report["processes"] for row in p.get("attached_late", [])
               if row["path"].endswith("new-c")]
    assert (late["after"], late["functions"], late["files"]) == ("exec", 1, 1)
    assert late["late_ns"] > 0
    unseen = [p for p in report["processes"] if "ended_unseen_ns" in p]
    assert sum(p["exec"] for p in unseen) == 2, "new-a and new-b"
    text = " ".join(run("report", tmp_path / "late.perfx").stdout.split())
    assert "Traced late: 1 process, by up to" in text and "(1 function of new-c)" in text
    assert f"Not traced: {len(unseen)} processes that ended before probes could be attached" in text


@pytest.fixture
def brief(tmp_path):
    """A program with a unique name; calling the fixture runs it once."""
    path = tmp_path / f"brief{os.getpid()}"
    shutil.copy(WORKLOADS / "tracked-static", path)

    def once():
        subprocess.run([path], input="go\n", text=True, check=True, capture_output=True, timeout=60)

    once.path = path
    return once


def of_program(report, path):
    return [p for p in report["processes"] if p["comm"] == path.name]


def test_all_counts_processes_that_end_at_once(brief, tracer, tmp_path):
    """-a: three processes of a new program start and end while the tracer is stopped. They are counted as
    missed, and the file gets probes all the same. Then its processes are traced from their first call,
    even those that start and end while the tracer is stopped."""
    capture = tmp_path / "missed.perfx"
    t = tracer(None, *QUICK, "--capture", capture)
    with t.stopped():
        for _ in range(3):
            brief()
    first = Program(brief.path)
    assert wait_for(lambda: patched_bytes(first.pid, brief.path.name))
    with t.stopped():
        for _ in range(20):
            brief()
    first.go()
    first.finish()
    report = t.stop()
    assert total(report, "program_step", "calls", first.pid) == 1000
    found = [p for p in of_program(report, brief.path) if p["pid"] != first.pid]
    assert [total(report, "program_step", "calls", p["pid"]) for p in found] == [1000] * 20
    assert not any("attached_late" in p or "ended_unseen_ns" in p for p in found)
    assert all(p["cpu_user_ns"] + p["cpu_system_ns"] > 0 for p in found), "all of it is in the recording"
    assert report["losses"]["undecoded"] == 0
    assert report["losses"]["processes_missed"] >= 3, "another test may have had some as well"
    assert report["capture"]["partial"]
    text = " ".join(run("report", capture).stdout.split())
    assert "processes_missed (processes that ended before their program was probed" in text


FLOOD = """
import mmap, sys, time
end = time.monotonic() + float(sys.argv[1])
with open(sys.executable, "rb") as file:
    while time.monotonic() < end:
        mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
"""

FORKS = """
import os, time
input()
for i in range(80):
    for _ in range(20):
        if not os.fork():
            time.sleep(0.02)
            os._exit(0)
    while i > 1 and os.waitpid(-1, os.WNOHANG)[0]:
        pass
"""


OPENER = """
import ctypes, sys
opened = []
for line in sys.stdin:
    if line == "call\\n":
        for library in opened:
            library.late_work(1)
    else:
        opened.append(ctypes.CDLL(line.strip()))
    print("done", flush=True)
"""


@contextlib.contextmanager
def opener():
    """A process, and a function that makes it open a library, or call the opened ones ("call")."""
    with subprocess.Popen([sys.executable, "-c", OPENER], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, bufsize=1) as program:
        def say(line):
            program.stdin.write(f"{line}\n")
            assert program.stdout.readline() == "done\n"

        yield program, say


def test_libraries_that_are_opened_one_by_one(tracer, tmp_path):
    """60 libraries arrive one after the other. The first call of each is counted, and for none of
    them are the mappings of all other programs read again."""
    names = [f"late-{i}-.so" for i in range(60)]
    with opener() as (program, say):
        t = tracer(program.pid, *QUICK, "--memory", "off", "-F", "late-*.so:late_work")
        # the last library's probes open before those of the next one exist
        for name in [*names, "late-end.so"]:
            shutil.copy(WORKLOADS / "late.so", tmp_path / name)
            say(tmp_path / name)
            assert wait_for(lambda last=name: patched_bytes(program.pid, last))
        say("call")
        report = t.stop()
        program.stdin.close()
    calls = [f["calls"] for f in functions(report, "late_work") if f["module"] in names]
    assert calls == [1] * len(names)
    others = sum(name.isdigit() for name in os.listdir("/proc"))
    assert looks(report)[1] < 3 * others + 100, "one pass over /proc at the start, and new programs"


HURRIED = """
import ctypes, sys, time
print("ready", flush=True)
sys.stdin.readline()
opened = []
for path in sys.argv[1:]:
    opened.append(ctypes.CDLL(path))
    time.sleep(0.02)
    opened[-1].late_work(1)
print("opened", flush=True)
sys.stdin.readline()
for library in opened:
    library.late_work(1)
print("called", flush=True)
sys.stdin.readline()
"""


def test_libraries_that_are_called_at_once(tracer, tmp_path):
    """60 libraries arrive every 20 ms and are called as soon as the next one is due. A first call may
    come before its library's probes, and the report says of each library that these came late. Later
    calls are counted without exception."""
    paths = [tmp_path / f"late-{i}-.so" for i in range(60)]
    for path in paths:
        shutil.copy(WORKLOADS / "late.so", path)
    with subprocess.Popen([sys.executable, "-c", HURRIED, *paths], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, bufsize=1) as program:
        assert program.stdout.readline() == "ready\n"
        t = tracer(program.pid, *QUICK, "--memory", "off", "-F", "late-*.so:late_work")
        program.stdin.write("\n")
        assert program.stdout.readline() == "opened\n"
        assert wait_for(lambda: patched_bytes(program.pid, paths[-1].name))
        program.stdin.write("\n")
        assert program.stdout.readline() == "called\n"
        report = t.stop()
        program.stdin.close()
    calls = [f["calls"] for f in functions(report, "late_work")]
    assert len(calls) == len(paths) and set(calls) <= {1, 2}
    late = report["processes"][0]["attached_late"]
    assert calls.count(1) <= sum(row["files"] for row in late)


def test_libraries_that_arrive_together(tracer, tmp_path):
    """80 libraries arrive while the tracer is stopped. It attaches them in a few scans of the program
    instead of one each, which would wait for 80 grace periods of the kernel."""
    paths = [tmp_path / f"late-{i}-.so" for i in range(80)]
    for path in paths:
        shutil.copy(WORKLOADS / "late.so", path)
    with opener() as (program, say):
        t = tracer(program.pid, *QUICK, "--memory", "off", "-F", "late-*.so:late_work")
        with t.stopped():
            for path in paths:
                say(path)
        assert wait_for(lambda: all(patched_bytes(program.pid, path.name) for path in paths))
        say("call")
        report = t.stop()
        program.stdin.close()
    assert [f["calls"] for f in functions(report, "late_work")] == [1] * len(paths)
    assert looks(report)[0] < 20


def test_lateness_is_never_negative(tracer):
    """An untraced program makes so many mappings that the kernel drops reports of them. Then all traced
    processes are scanned, including those that have just ended."""
    forks = subprocess.Popen(["/usr/bin/python3", "-c", FORKS], stdin=subprocess.PIPE, text=True)
    flood = subprocess.Popen(["/usr/bin/python3", "-c", FLOOD, "60"])
    try:
        t = tracer(forks.pid, *QUICK, "-F", "nothing-of-that-name.so:f*", "--memory", "off")
        forks.communicate("\n", timeout=60)
        report = t.stop()
    finally:
        forks.kill()
        flood.kill()
        flood.wait()
    assert report["losses"]["undecoded"] == 0


def test_a_library_that_is_overwritten(tracer, tmp_path):
    """Overwritten in place between two programs of traced processes: its probes are removed at once, so
    that the second program survives, and its calls count by the library's new contents."""
    for name in ("dlopen", "late.so"):
        shutil.copy(WORKLOADS / name, tmp_path)
    for name in ("first", "second"):
        os.mkfifo(tmp_path / name)
    shell = subprocess.Popen(
        ["sh", "-c", 'read x; ./dlopen <first; echo "ended $?"; ./dlopen <second; echo "ended $?"'],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def call_library(name):
        """Opens the library, calls it 500 times once it has probes, and ends."""
        with open(tmp_path / name, "w", buffering=1, encoding="ascii") as to:
            pid = int(shell.stdout.readline().split()[1])
            to.write("go\n")
            assert shell.stdout.readline() == "done\n"
            assert wait_for(lambda: patched_bytes(pid, "late.so"))
            to.write("go\n")
            assert shell.stdout.readline() == "done\n", "it died"
        while not (line := shell.stdout.readline()).startswith("ended"):
            assert line.startswith("expect"), line
        assert line == "ended 0\n"

    try:
        t = tracer(shell.pid, *QUICK, "-F", "late.so:late_work")
        shell.stdin.write("\n")
        call_library("first")
        (tmp_path / "late.so").write_bytes((WORKLOADS / "late_shifted.so").read_bytes())
        assert any("late.so was overwritten" in line for line in t.process.stderr)
        call_library("second")
        report = t.stop()
    finally:
        shell.kill()
    assert [f["calls"] for f in functions(report, "late_work")] == [500, 500]
    assert "late.so" in [row["name"] for row in report["not_attached"]]


def test_untraced_processes_that_come_later_are_left_alone(program, tracer, tmp_path):
    """An untraced program that maps a traced file later pays for its probes. If it calls them often,
    the file is attached by process, and the traced program loses nothing."""
    path = shutil.copy(WORKLOADS / "calls", tmp_path / "shared-calls")
    traced = program(path)
    t = tracer(traced.pid, *QUICK, "-F", "shared-calls:outer")
    stranger = program(path)
    assert patched_bytes(stranger.pid)
    end = time.monotonic() + 30
    while patched_bytes(stranger.pid):
        assert time.monotonic() < end
        stranger.say("go\n" * 9 + "go")
        traced.go(20)  # beside it
        assert [stranger.hear() for _ in range(10)] == ["done\n"] * 10
    traced.go()
    expected = traced.finish()
    report = t.stop()
    assert total(report, "outer", "calls") == expected["outer", "calls"]
    assert [p["pid"] for p in report["processes"]] == [traced.pid]
    assert report["losses"]["foreign_hits"] >= 1000
    assert "attached_late" not in report["processes"][0]
    assert "shared-calls" in [row["name"] for row in report["not_attached"]]


CALLS_WHILE_IT_OPENS = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
__attribute__((noinline)) int work(int x) { for (volatile int i = 0; i < 2000; i++) x ^= i; return x; }
static volatile int done;
static void *calls(void *count)
{
	for (; !done; ++*(long *)count) work(1);
	return NULL;
}
int main(void)
{
	pthread_t thread;
	long count = 0;
	getchar();
	pthread_create(&thread, NULL, calls, &count);
	dlopen("libstdc++.so.6", RTLD_NOW);
	getchar();
	done = 1;
	pthread_join(thread, NULL);
	printf("%ld\n", count);
	fflush(stdout);
	getchar();
}
"""


def test_c_that_opens_cxx(links, tracer, tmp_path):
    """Return probes time a program that is C only. When it opens a C++ library, which could throw
    through them, exit probes replace them, and each call counts once."""
    if "session" not in links:
        pytest.skip("this kernel has no session links")
    (tmp_path / "opens.c").write_text(CALLS_WHILE_IT_OPENS)
    subprocess.run(["cc", "-O1", "-pthread", "-o", tmp_path / "opens", tmp_path / "opens.c", "-ldl"], check=True)
    with subprocess.Popen([tmp_path / "opens"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          bufsize=1) as program:
        t = tracer(program.pid, *QUICK, "--memory", "off", "-F", "opens:work")
        at_entry = patched_bytes(program.pid, "opens")
        program.stdin.write("\n")
        assert wait_for(lambda: patched_bytes(program.pid, "opens") > at_entry), "no exit probes"
        program.stdin.write("\n")
        expected = int(program.stdout.readline())
        report = t.stop()
        program.stdin.close()
    work = functions(report, "work")[0]
    entries = [probe for probe in report["overhead"]["probes"] if probe["at"] == "entry"]
    assert [probe["link"] for probe in entries] == ["session", "multi"]
    assert work["calls"] == sum(probe["hits"] for probe in entries) == expected
    assert work["calls"] - work["timed"] == report["losses"]["untimed_calls"]
