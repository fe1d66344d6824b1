# SPDX-License-Identifier: BSD-2-Clause
"""Python frames of each interpreter on this machine: the lines that allocate, the lines that call
traced functions, waiting threads, forked children. The workload prints the expected lines; py-spy, if
installed, is the reference for whole stacks."""
import collections
import ctypes.util
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import PERFX, ended, until_attached

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "workloads/python_lines.py"
GREENLETS = SCRIPT.parent / "greenlets.py"
SUBINTERPRETERS = SCRIPT.parent / "subinterpreters.py"
LINES = SCRIPT.read_text().splitlines()
ROUNDS = 5
TURNS = 50  # of greenlets.py


def works(python):
    return shutil.which(python) and not subprocess.run(
        [python, "-c", "import ctypes; ctypes.CDLL('libz.so.1')"], capture_output=True,
        check=False).returncode


FOUND = [p for p in ["/usr/bin/python3", *(f"python3.{minor}" for minor in range(8, 15))] if works(p)]


@functools.cache
def version(python):
    text = subprocess.run([python, "-c", "import sys; print(sys.version_info[1])"], check=True,
                          capture_output=True, text=True).stdout
    return int(text)


# make test runs one interpreter of each release
PYTHONS = [pytest.param(python, marks=[pytest.mark.long] if version(python) in map(version, FOUND[:i]) else [])
           for i, python in enumerate(FOUND)]


def line_with(text):
    """The number of the line with the comment; a call over two lines has its first line."""
    number = next(i for i, line in enumerate(LINES, 1) if text in line)
    return number - 1 if "line above" in LINES[number - 1] else number


def name(python, function):
    """The function's name in a frame of this release."""
    return function if version(python) >= 11 else function.split(".")[-1]


def python_frames(stack):
    return [frame for frame in stack if re.search(r"\(\S+\.py:\d+\)$", frame)]


@pytest.mark.parametrize("python", PYTHONS)
def test_bytes_of_each_line(python, program, tracer):
    """Python frames are between the native frames that run them and those that they call."""
    p = program(python, SCRIPT)
    t = tracer(p.pid, "--memory", "all", "--sample", "off", "--no-calibrate")
    p.go(ROUNDS)
    report = t.stop()
    p.finish()
    host = next(m for m in report["processes"][0]["memory"] if m["domain"] == "host")
    found = collections.Counter()
    for hotspot in host["hotspots"]:
        frames = python_frames(hotspot["stack"])
        if frames:
            found[frames[0]] += hotspot["allocated_bytes"]
    # two threads per round
    for function, size, times in (("Model.forward", 100003, 1), ("Model.forward", 200003, 1),
                                  ("key", 300007, 7), ("numbers", 400009, 3),
                                  ("recurse", 500009, 1)):
        frame = f"{name(python, function)} (python_lines.py:{line_with(f'# {size} bytes')})"
        assert found[frame] == 2 * ROUNDS * times * size, (frame, found)
    check_order_of_frames(host)


def check_order_of_frames(host):
    key = f"key (python_lines.py:{line_with('# 300007 bytes')})"
    stacks = [h["stack"] for h in host["hotspots"] if python_frames(h["stack"])[:1] == [key]]
    names = [[frame.split(" (")[0] for frame in stack] for stack in stacks]
    by_sort = next(stack for stack in names if "list_sort_impl" in stack or "builtin_sorted" in stack or
                   sum(map("work".__eq__, stack)) and "numbers" not in stack)
    assert by_sort.index("key") < by_sort.index("work")
    recursion = max((python_frames(h["stack"]) for h in host["hotspots"]),
                    key=lambda frames: sum("recurse (" in frame for frame in frames))
    assert sum("recurse (" in frame for frame in recursion) == 21


def test_greenlets(program, tracer):
    """Stacks that are copied away and back are complete, each with the frames of the running
    greenlet."""
    p = program("/usr/bin/python3", GREENLETS)
    t = tracer(p.pid, "--memory", "all", "--sample", "off", "--no-calibrate")
    p.go()  # loads the tables of the running code
    p.go()
    (process,) = t.stop()["processes"]
    p.finish()
    host = next(m for m in process["memory"] if m["domain"] == "host")
    found = collections.Counter()
    for hotspot in host["hotspots"]:
        frames = tuple(frame.split()[0] for frame in python_frames(hotspot["stack"]))
        if frames[:1] in [("red",), ("blue_key",)]:
            found[frames] += hotspot["allocated_bytes"]
    rest = "repeated", "go.<locals>.<lambda>"
    assert found == {(*["red"] * 6, *rest): 2 * TURNS * 100003, ("blue_key", "blue", *rest): 2 * TURNS * 200003}
    stacks = process["stacks"]
    assert stacks["complete"] + stacks["cut"] >= 0.99 * stacks["taken"]


@pytest.mark.parametrize("python", PYTHONS)
def test_time_of_calls_by_line(python, program, tracer):
    p = program(python, SCRIPT)
    t = tracer(p.pid, "-F", "libz.so.1:crc32", "--memory", "off", "--sample", "off", "--no-calibrate")
    p.go(ROUNDS)
    report = t.stop()
    p.finish()
    process = report["processes"][0]
    crc32 = next(f for f in process["functions"] if f["name"] == "crc32")
    assert crc32["calls"] == 2 * ROUNDS * 9
    lines = {(line["function"], line["line"]): line["calls_ns"] for line in process["lines"]
             if line["language"] == "python" and line.get("calls_ns")}
    expected = {(name(python, "Model.crc"), line_with("# crc32 7")), ("work", line_with("# crc32 2"))}
    assert set(lines) == expected
    assert sum(lines.values()) == crc32["total_ns"]


def stacks_of_first_calls(capture):
    """Perfetto's argument of that name, split into frames, without the format's marks."""
    trace = subprocess.run([PERFX, "export", capture, "-f", "perfetto"], check=True, capture_output=True).stdout
    texts = re.findall("(?:[ -~]|\u2190)+".encode(), trace)
    return [text.split(" \u2190 ") for text in map(bytes.decode, texts) if " \u2190 " in text]


@pytest.mark.parametrize("stacks", ["unwind", "off"])
def test_stack_of_first_call(stacks, program, tmp_path):
    """One stack for each calling context, independent of other records and the number of calls."""
    capture = tmp_path / "run.perfx"
    p = program("/usr/bin/python3", SCRIPT)
    with subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-F", "libz.so.1:crc32", "--memory", "off",
                           "--sample", "off", "--stacks", stacks, "--no-calibrate", "-o", capture],
                          stderr=subprocess.PIPE, text=True) as t:
        until_attached(t)
        p.go(ROUNDS)
        t.send_signal(signal.SIGINT)
        assert ended(t) == 0
    p.finish()
    report = json.loads(subprocess.run([PERFX, "report", capture, "-f", "json"], check=True, capture_output=True,
                                       text=True).stdout)
    quality = report["processes"][0].get("stacks")
    found = stacks_of_first_calls(capture)
    if stacks == "off":
        assert not quality and not found
        return
    # "crc32 7" is one call, "crc32 2" two of a line
    assert quality["taken"] == quality["complete"] == 3
    lines = collections.Counter()
    for stack in found:
        python = python_frames(stack)
        at = stack.index(python[0])
        assert any(frame.startswith(("ffi_call", "libffi")) for frame in stack[:at]), stack
        lines[python[0]] += 1
    assert lines == {f"Model.crc (python_lines.py:{line_with('# crc32 7')})": 1,
                     f"work (python_lines.py:{line_with('# crc32 2')})": 2}


def test_deep_stacks_keep_the_outer_python_frames(tmp_path):
    """The outer Python frames are known even if native frames fill the stack."""
    script, out = tmp_path / "deep.py", tmp_path / "report.json"
    script.write_text("import time\n"
                      "def deep(levels):\n"
                      "    return max(map(deep, [levels - 1])) if levels else naps()\n"
                      "def naps():\n"
                      "    for _ in range(50):\n"
                      "        time.sleep(0.01)\n"
                      "    return 0\n"
                      "deep(60)\n")
    subprocess.run([PERFX, "run", "--no-calibrate", "--full", "-o", out, "--", "/usr/bin/python3", script], check=True,
                   capture_output=True, text=True)
    (process,) = json.loads(out.read_text())["processes"]
    naps = max((wait for wait in process["blocked"] if wait["reason"] == "sleep"), key=lambda wait: wait["ns"])
    assert process["stacks"]["cut"]
    assert python_frames(naps["stack"]) == ["naps (deep.py:6)", *["deep (deep.py:3)"] * 61, "<module> (deep.py:8)"]


@pytest.mark.alone  # the child must be attached within a second, its names read within two
@pytest.mark.some(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_launched(python, tmp_path):
    """An interpreter that has not started when it is attached; and a forked child."""
    script = tmp_path / "forks.py"
    script.write_text("import ctypes, os, time\n"
                      "malloc = ctypes.CDLL(None).malloc\n"
                      "time.sleep(1)\n"
                      "child = os.fork()\n"
                      "time.sleep(1)\n"  # a child of a shared library gets its own probes
                      "def f():\n"
                      "    malloc(700001)\n"
                      "f()\n"
                      "time.sleep(2)\n"  # names are read while the process lives
                      "if child:\n"
                      "    os.wait()\n")
    out = tmp_path / "report.json"
    subprocess.run([PERFX, "run", "--memory", "all", "--sample", "off", "--no-calibrate", "-o", out, "--",
                    python, script], check=True, capture_output=True, text=True)
    report = json.loads(out.read_text())
    stacks = [python_frames(h["stack"]) for p in report["processes"] for m in p["memory"]
              for h in m["hotspots"] if h["allocated_bytes"] == 700001]
    assert stacks == 2 * [["f (forks.py:7)", "<module> (forks.py:8)"]]


PY_SPY = os.environ.get("PY_SPY") or shutil.which("py-spy")


needs_py_spy = pytest.mark.skipif(not PY_SPY, reason="needs py-spy: pip install py-spy, PY_SPY=its path")


@needs_py_spy
@pytest.mark.parametrize("python", PYTHONS)
def test_waiting_threads_as_py_spy_sees_them(python, program, tmp_path):
    p = program(python, SCRIPT)
    p.say("wait")
    assert p.hear() == "done\n"
    dump = subprocess.run([PY_SPY, "dump", "--json", "--pid", str(p.pid)], check=False,
                          capture_output=True, text=True)
    if dump.returncode:
        pytest.skip(f"py-spy cannot read it: {dump.stderr}")
    out = tmp_path / "report.json"
    subprocess.run([PERFX, "-p", str(p.pid), "--memory", "off", "-d", "2", "--no-calibrate", "-o", out],
                   check=True, capture_output=True, text=True)
    seen = {(frame["name"], frame["line"]) for thread in json.loads(dump.stdout)
            for frame in thread["frames"][:1]}
    lines = json.loads(out.read_text())["processes"][0]["lines"]
    found = {(line["function"].split(".")[-1], line["line"]) for line in lines
             if line["language"] == "python" and line["off_cpu_ns"]}
    assert {(n.split(".")[-1], line) for n, line in seen} <= found


# Of each of two profilers: a share of a third has a standard error of 0.9 points then, their difference
# 1.2.
SAMPLES_A_SECOND, SECONDS_OF_SAMPLES = "333", "8"


def py_spy_lines(pid, out):
    """Samples of computing threads, by line."""
    done = subprocess.run([PY_SPY, "record", "--pid", str(pid), "-d", SECONDS_OF_SAMPLES, "-r",
                           SAMPLES_A_SECOND, "-f", "raw", "-o", out],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"py-spy cannot read it: {done.stderr}")
    samples = collections.Counter()
    for line in out.read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        samples[re.search(r":(\d+)\)$", stack)[1]] += int(count)
    return samples


@needs_py_spy
@pytest.mark.parametrize("python", PYTHONS)
def test_lines_that_compute_as_py_spy_sees_them(python, program, tmp_path):
    """Shares of each line of a pure Python program, within 4 points."""
    p = program(python, SCRIPT)
    p.say("compute")
    seen = py_spy_lines(p.pid, tmp_path / "raw.txt")
    out = tmp_path / "report.json"
    subprocess.run([PERFX, "-p", str(p.pid), "--memory", "off", "-d", SECONDS_OF_SAMPLES, "--sample",
                    SAMPLES_A_SECOND, "--no-calibrate", "-o", out], check=True, capture_output=True, text=True)
    p.process.kill()
    lines = json.loads(out.read_text())["processes"][0]["lines"]
    mine = {str(line["line"]): line["on_cpu_ns"] for line in lines
            if line["language"] == "python" and line["file"].endswith(SCRIPT.name)}
    assert len(seen) >= 6
    for line in set(seen) | set(mine):
        assert abs(seen[line] / seen.total() - mine.get(line, 0) / sum(mine.values())) < 0.04, (line, seen, mine)


@pytest.mark.some(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_code_that_follows_other_code_at_its_address(python, tmp_path):
    """Each piece of generated code has its own time, or no name; none has another's."""
    report = tmp_path / "report.json"
    result = subprocess.run([PERFX, "run", "--no-calibrate", "-o", str(report),
                             "--", python, str(SCRIPT.parent / "reused_code.py")],
                            capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    truth = json.loads(result.stdout.splitlines()[0])
    found = collections.Counter()
    for process in json.loads(report.read_text())["processes"]:  # pyenv's python3.11 is a script
        for line in process.get("lines", []):
            found[os.path.basename(line["file"])] += line["on_cpu_ns"] / 1e9
    # 25 samples each: ± 4 standard errors
    for file, seconds in truth["seconds"].items():
        assert 0.05 < found[file] < seconds + 0.2, (file, truth, found)
    assert truth["addresses"] < len(truth["seconds"]), "no address came again"
    pieces = sum(found[file] for file in truth["seconds"])
    assert pieces == pytest.approx(sum(truth["seconds"].values()), rel=0.2), found


def line_of_comment(script, comment):
    (number,) = [i for i, line in enumerate(script.read_text().splitlines(), 1) if line.endswith(f"# {comment}")]
    return number


@pytest.mark.parametrize("python", PYTHONS)
def test_lines_of_subinterpreters(python, program, tmp_path):
    """Samples of threads that run a subinterpreter, on their own or another thread, are at its lines.
    Up to 3.9 the thread is unknown, and they are where the main interpreter runs it."""
    p = program(python, SUBINTERPRETERS)
    p.say("compute")
    out = tmp_path / "report.json"
    subprocess.run([PERFX, "-p", str(p.pid), "--memory", "off", "-d", "1500ms", "--no-calibrate", "-o", out],
                   check=True, capture_output=True, text=True)
    p.process.kill()
    on_cpu = collections.Counter()
    for line in json.loads(out.read_text())["processes"][0]["lines"]:
        if line["file"].endswith(SUBINTERPRETERS.name):
            on_cpu[line["line"]] += line["on_cpu_ns"]
    places = ["computes of main", "computes of maker", "computes of guest"] if version(python) > 9 else ["runs it"]
    lines = [line_of_comment(SUBINTERPRETERS, place) for place in places]
    assert all(on_cpu[line] > 0.1 * on_cpu.total() for line in lines), (lines, on_cpu)
    assert sum(on_cpu[line] for line in lines) > 0.9 * on_cpu.total(), (lines, on_cpu)


@pytest.mark.parametrize("python", PYTHONS)
def test_calls_of_subinterpreters(python, program, tmp_path):
    """Each call belongs to the subinterpreter's line, inside the main interpreter's frames."""
    p = program(python, SUBINTERPRETERS)
    capture = tmp_path / "run.perfx"
    with subprocess.Popen([PERFX, "record", "-p", str(p.pid), "-F", "libz.so.1:crc32", "--memory", "off", "--sample",
                           "off", "--no-calibrate", "-o", capture], stderr=subprocess.PIPE, text=True) as t:
        until_attached(t)
        p.go(ROUNDS)
        t.send_signal(signal.SIGINT)
        assert ended(t) == 0
    p.finish()
    (process,) = json.loads(subprocess.run([PERFX, "report", capture, "-f", "json"], check=True, capture_output=True,
                                           text=True).stdout)["processes"]
    crc32 = next(f for f in process["functions"] if f["name"] == "crc32")
    assert crc32["calls"] == 3 * 7 * ROUNDS
    inside, outside = (line_of_comment(SUBINTERPRETERS, comment) for comment in ("calls inside", "runs it"))
    lines = {line["line"] for line in process["lines"] if line["language"] == "python" and line.get("calls_ns")}
    stacks = {tuple(frame.split(" (")[0].split(".")[-1] for frame in python_frames(stack) if "threading" not in frame)
              for stack in stacks_of_first_calls(capture)}
    if version(python) > 9:
        assert lines == {inside}
        assert stacks == {("calls", "run"), ("calls", "run", "make_and_run"),
                          ("calls", "run", "make_and_run", "run_all", "main", "<module>")}
    else:
        assert lines == {outside}
        # stack of the first call at that line
        assert len(stacks) == 1 and stacks < {("run",), ("run", "make_and_run"),
                                              ("run", "make_and_run", "run_all", "main", "<module>")}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_gil_of_a_subinterpreter(python, program, tracer):
    """Two threads of a subinterpreter with its own GIL wait for that GIL."""
    if version(python) < 12:
        pytest.skip("this Python has one GIL for all interpreters")
    p = program(python, SUBINTERPRETERS)
    t = tracer(p.pid, "--memory", "off", "--no-calibrate")
    p.say("contend")
    assert p.hear() == "done\n"
    (process,) = t.stop()["processes"]
    p.finish()
    # on a busy machine both wait for a CPU as well
    assert process["account"]["gil_ns"] > 0.3 * process["account"]["computing_ns"], process["account"]


LIBRARY = ctypes.util.find_library("python3.11")  # of gdb

EMBEDS = """#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	void (*start)(void) = dlsym(library, "Py_Initialize");
	int (*run)(const char *) = dlsym(library, "PyRun_SimpleString");
	char line[8];
	printf("ready %d\\n", (int)getpid());
	fflush(stdout);
	fgets(line, sizeof(line), stdin);
	start();
	return run(argv[2]);
}
"""


COMPUTES = """import time
end = time.monotonic() + 1
while time.monotonic() < end:
    pass
"""


def test_an_interpreter_that_starts_while_it_is_traced(program, tracer, tmp_path):
    """A C program that has Python's library from the start, and runs Python seconds after it is
    attached."""
    (tmp_path / "embeds.c").write_text(EMBEDS)
    subprocess.run(["cc", "-o", tmp_path / "embeds", tmp_path / "embeds.c"], check=True)
    (tmp_path / "computes.py").write_text(COMPUTES)
    code = f"path = {str(tmp_path / 'computes.py')!r}\nexec(compile(open(path).read(), path, 'exec'))"
    p = program(tmp_path / "embeds", LIBRARY, code)
    t = tracer(p.pid, "--memory", "off", "--no-calibrate")
    time.sleep(3.5)  # checks become rarer
    p.say("go")
    assert ended(p.process) == 0
    process = t.stop()["processes"][0]
    on_cpu = sum(line["on_cpu_ns"] for line in process["lines"] if line["file"].endswith("computes.py"))
    assert on_cpu > 0.5 * (process["cpu_user_ns"] + process["cpu_system_ns"]), process["lines"]


# Computes in a function of a package, called by the program's line 8.
TRAINER = """import sys
import time
sys.path.insert(0, sys.argv[1])
from vendored import layer
def train():
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        layer.forward()
train()
"""
LAYER = "def forward():\n    return sum(i * i for i in range(100000))\n"


@pytest.mark.parametrize("kind", ["target", "editable", "zipapp"])
def test_the_programs_own_line(kind, tmp_path):
    """The verdict names the program's own line: pip's --target folder belongs to a package, while
    source trees (an editable install leaves an egg-info there) and archives are the program's."""
    folder = tmp_path / "libraries"
    package = folder / "vendored"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "layer.py").write_text(LAYER)
    (tmp_path / "train.py").write_text(TRAINER)
    where = folder
    if kind == "target":
        info = folder / "Vendored-1.0.dist-info"
        info.mkdir()
        (info / "RECORD").write_text("vendored/__init__.py,,0\nvendored/layer.py,,80\n")
    elif kind == "editable":
        info = folder / "vendored.egg-info"
        info.mkdir()
        (info / "top_level.txt").write_text("vendored\n")
    else:
        where = shutil.make_archive(str(tmp_path / "app"), "zip", folder)
        shutil.rmtree(folder)
    out = tmp_path / "report.json"
    subprocess.run([PERFX, "run", "--no-calibrate", "-o", str(out), "--", "/usr/bin/python3",
                    str(tmp_path / "train.py"), str(where)], check=True, capture_output=True, timeout=60)
    verdict = json.loads(out.read_text())["verdict"]
    own = "train (train.py:8)" if kind == "target" else "(layer.py:2)"
    assert own in verdict, verdict
