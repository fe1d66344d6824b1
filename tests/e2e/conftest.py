# SPDX-License-Identifier: BSD-2-Clause
"""Shared by the end-to-end tests: programs with known answers, and the tracer as a user runs it."""
import collections
import contextlib
import ctypes
import fcntl
import functools
import json
import os
import pathlib
import platform
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

import pytest

pytest.register_assert_rewrite("flops", "trainers", "memories", "memory_trainers",
                              "ranges")

# programs in the background (nohup, &) ignore these signals, and so do their children
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

TOP = pathlib.Path(__file__).resolve().parents[2]
# pytest-xdist runs tests side by side in several processes
LANE = os.environ.get("PYTEST_XDIST_WORKER")
LANE_PLACE = tempfile.TemporaryDirectory(prefix=f"perfx-{LANE}-", dir="/tmp") if LANE else None


def build_folder():
    """Each lane has its own copy of the traced files, because a file that other processes map as well
    is attached in another way."""
    build = TOP / os.environ.get("BUILD", "build")
    if not LANE:
        return build
    own = pathlib.Path(LANE_PLACE.name)
    own.chmod(0o755)
    for name in ("perfx-trace", "perfx-trace.1", "libperfx.so.1", "lib", "workloads", "e2e"):
        subprocess.run(["cp", "-a", build / name, own], check=True)
    return own


BUILD = build_folder()
PERFX = str(BUILD / "perfx-trace")
WORKLOADS = BUILD / "workloads"
# make test-all and check-kernels run each kind of link and long tests.
EVERYTHING = os.environ.get("PERFX_TESTS") == "all"
# tests/run, which make starts after .ci/deps: everything that packages provide is there, so a test may
# only skip for another kernel, missing privileges, or tools that Debian does not have.
STRICT = os.environ.get("PERFX_TESTS_STRICT") == "1"
MAY_SKIP = re.compile(
    "this kernel|kernel thread|/dev/kmsg|mounted here|control groups here|allowed here|terminal|"
    "not built here|sudo|TOOLS_PYTHON|no go here|no promtool|no systemd-analyze|perf buildid|this perf|this Python|"
    "this linker|needs py-spy|no semaphores|VENV names no|this PyTorch")
BPFTOOL = shutil.which("bpftool", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


def pytest_configure(config):
    config.addinivalue_line("markers", "kernel: the known answers that are also asked of other kernels")
    config.addinivalue_line("markers", "long: part of make test-all alone")
    config.addinivalue_line("markers", "some(count): of a family of variants, make test runs the first ones")
    config.addinivalue_line("markers", "alone: nothing else may run: times are compared, or others are disturbed")


# The longest files begin first, so that the lanes end together.
LONGEST = ("test_samples.py", "test_harm.py", "test_torch.py", "test_budget.py", "test_target.py", "test_serve.py",
           "test_follow.py", "test_annotations.py", "test_top.py", "test_memory.py", "test_capture.py")


def order_of(item):
    return LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST)


def is_long(item, variants):
    """Whether only make test-all runs it. variants: number of variants of each family before this
    one."""
    some = item.get_closest_marker("some")
    if item.get_closest_marker("long"):
        return True
    variants[item.nodeid.split("[")[0]] += 1
    return some is not None and variants[item.nodeid.split("[")[0]] > some.args[0]


def pytest_collection_modifyitems(config, items):
    variants = collections.Counter()
    long = [] if EVERYTHING else [item for item in items if is_long(item, variants)]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    items.sort(key=order_of)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):  # pylint: disable=unused-argument
    """A skip without a valid excuse is a failure."""
    report = (yield).get_result()
    if not (STRICT and report.skipped and isinstance(report.longrepr, tuple)):
        return
    reason = report.longrepr[2]
    if not MAY_SKIP.search(reason):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} is not to be skipped here: {reason}"


class Program:
    """A program of tests/workloads that follows known.h's protocol."""

    def __init__(self, *argv, **popen):
        self.process = subprocess.Popen(
            [str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, bufsize=1, **popen)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), line + self.process.stderr.read()
        self.pid = int(line.split()[1])

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline()

    def go(self, times=1):
        for _ in range(times):
            self.say("go")
            line = self.hear()
            assert line == "done\n", f"{line!r} {self.process.poll()} {self.process.stderr.read()}"

    def finish(self):
        """Ends the program and returns its expectations as {(function, key): value}. Fails if it was
        harmed."""
        self.process.stdin.close()
        text = self.process.stdout.read()
        error = self.process.stderr.read()
        assert self.process.wait(60) == 0, f"the program was harmed: {error}"
        return expectations(text)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def expectations(text):
    found = {}
    for line in text.splitlines():
        if line.startswith("expect "):
            name, key, value = line[len("expect "):].rsplit(" ", 2)
            found[name, key] = found.get((name, key), 0) + int(value)
    return found


class Tracer:
    """perfx-trace -p PID, or -a if pid is None. The constructor returns when it is attached; stop() returns the report."""

    def __init__(self, pid, *options, duration="60", link=None, budget=False, **popen):
        which = ["-a"] if pid is None else ["-p", str(pid)]
        argv = [PERFX, *which, "-d", duration, "-f", "json", "--full"]
        # at a gate the program is idle before and after: there are no steps to observe
        if "--observe" not in options:
            argv += ["--observe", "off"]
        # exact counts must not depend on the load of the machine
        if not budget and "--max-overhead" not in options:
            argv += ["--max-overhead", "off"]
        argv += options
        if link:
            argv += ["--link", link]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        **popen)
        self.lines = []
        if not self.reads(": tracing "):
            pytest.fail("not attached: " + "".join(self.lines))

    @contextlib.contextmanager
    def stopped(self):
        """The tracer is stopped meanwhile, so nobody drains the rings."""
        self.process.send_signal(signal.SIGSTOP)
        assert wait_for(lambda: status(self.process.pid, "State").startswith("T"))
        yield
        self.process.send_signal(signal.SIGCONT)

    def reads(self, text):
        """Waits for a message; False if the tracer has ended without it."""
        for line in self.process.stderr:
            self.lines.append(line)
            if text in line:
                return True
        return False

    def stop(self, expect=0):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.report(expect)

    def report(self, expect=0):
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == expect, err
        self.lines += err.splitlines(keepends=True)
        return json.loads(out)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def status(pid, key):
    """A line of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="utf8") as lines:
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(key + ":"))


def run(*argv, **more):
    """Runs perfx-trace to its end."""
    return subprocess.run([PERFX, *map(str, argv)], capture_output=True, text=True,
                          **{"timeout": 120, **more})


def read_terminal(main):
    """The program's output on the other side of the terminal, until that is closed."""
    data = b""
    while True:
        try:
            chunk = os.read(main, 65536)
        except OSError:  # EIO: the other side is closed
            break
        if not chunk:
            break
        data += chunk
    os.close(main)
    return data.decode()


def on_terminal(columns, *argv, **environment):
    """The program's output on a terminal of that width."""
    try:
        main, secondary = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal to be had here: {error}")
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    attributes = termios.tcgetattr(secondary)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(secondary, termios.TCSANOW, attributes)
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen([PERFX, *map(str, argv)], stdout=secondary, stdin=secondary,
                               stderr=subprocess.DEVNULL, env=env | environment)
    os.close(secondary)
    text = read_terminal(main)
    assert process.wait() == 0
    return text


def run_unprivileged(*argv):
    """As run(), by a user without privileges, from a copy that this user can read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)
        copy = shutil.copy(PERFX, place)
        os.chmod(copy, 0o755)
        return subprocess.run([copy, *map(str, argv)], capture_output=True, text=True, timeout=60,
                              cwd="/", user="nobody", group="nogroup", extra_groups=[])


def functions(report, name, pid=None):
    """Rows of a function in all processes; a C++ name also matches by its last component."""
    return [f for p in report["processes"] if pid in (None, p["pid"]) for f in p["functions"]
            if f["name"] == name or f["name"].endswith("::" + name)]


def total(report, name, key, pid=None):
    return sum(f.get(key, 0) for f in functions(report, name, pid))


def check_expectations(report, expected):
    """The report must have exactly the values that the program printed."""
    wrong = []
    for (name, key), value in expected.items():
        pid = None
        if "@" in key:
            key, pid = key.split("@")
            pid = int(pid)
        if key in ("calls", "unwound"):
            got = total(report, name, key, pid)
            if got != value:
                wrong.append(f"{name} {key} {pid or ''}: {got}, must be {value}")
        elif key == "at_most" and total(report, name, "calls") > value:
            wrong.append(f"{name}: more than {value}")
    for key, loss in (("running", "unmatched_entries"), ("begun_before", "unmatched_returns")):
        value = sum(v for (_, k), v in expected.items() if k == key)
        got = report["losses"][loss]
        if got != value:
            wrong.append(f"{loss}: {got}, must be {value}")
    assert not wrong, "\n".join(wrong + [json.dumps(report["losses"])])


def consistent(report):
    """Checks that hold for every report."""
    for process in report["processes"]:
        for f in process["functions"]:
            assert f["timed"] + f["unwound"] <= f["calls"]
            if f["timed"]:
                assert f["self_ns"] <= f["total_ns"]
                assert f["avg_ns"] == f["total_ns"] // f["timed"]
            if "min_ns" in f:
                assert f["min_ns"] <= f["p50_ns"] * 1.02 and f["p50_ns"] <= f["p99_ns"] <= f["max_ns"] * 1.02
            if f.get("parents"):
                assert sum(p["calls"] for p in f["parents"]) == f["calls"], f


def known_names(path, steps=1, *args):
    """The functions about which a program prints expectations; runs it untraced."""
    program = Program(path, *args)
    program.go(steps)
    return sorted({name for name, _ in program.finish()})


@functools.cache
@functools.cache
def working_links():
    """Kinds of link that work here, best first."""
    text = run("doctor").stdout
    have = [("session", "uprobe session links"), ("multi", "uprobe_multi links\n"),
            ("perf", "perf events of many uprobes (tracefs)"), ("single", "uprobes by perf event")]
    return [name for name, line in have
            if any(l.startswith("ok") and line.strip() == l[8:].split(":")[0].strip()
                   for l in text.splitlines())]


def links_to_ask():
    """make test uses the best kind of link that works here, make test-all each kind."""
    best = working_links()[:1]
    return best if best and not EVERYTHING else ["session", "multi", "perf", "single"]


LINKS = links_to_ask()


@pytest.fixture(scope="session")
def links():
    """The kinds of links_to_ask that work here."""
    return [link for link in LINKS if link in working_links()]


@pytest.fixture
def program():
    started = []

    def start(*argv, **popen):
        started.append(Program(*argv, **popen))
        return started[-1]

    yield start
    for p in started:
        p.kill()


@pytest.fixture
def tracer():
    started = []

    def start(pid, *options, **more):
        started.append(Tracer(pid, *options, **more))
        return started[-1]

    yield start
    for t in started:
        t.kill()


def program_of_functions(folder, count):
    """Builds a program that calls `count` functions, many_0 and so on, once per step."""
    source = folder / "many.c"
    source.write_text("\n".join(
        ["#include <stdio.h>", "#include <unistd.h>"] +
        [f'__attribute__((noinline)) int many_{i}(int x) {{ asm volatile("" : "+r"(x)); return x + {i}; }}'
         for i in range(count)] +
        ["int main(void) {", "char line[8];", "int x = 0;",
         'setlinebuf(stdout);', 'printf("ready %d\\n", (int)getpid());', "while (fgets(line, sizeof(line), stdin)) {"] +
        [f"x = many_{i}(x);" for i in range(count)] + ['puts("done");', "}", "return x == 0;", "}"]))
    subprocess.run(["cc", "-O1", "-o", folder / "many", source], check=True)
    return folder / "many"


@contextlib.contextmanager
def control_group(pid, rows):
    """A process in its own control group, in the first hierarchy (version 2 or 1) whose groups have the
    file: yields the group and that row without its root. rows: (root, file, ...)."""
    for root, file, *rest in rows:
        group = pathlib.Path(root, f"perfx-test-{pid}")
        with contextlib.suppress(OSError):
            group.mkdir()
        if (group / file).exists():
            break
        with contextlib.suppress(OSError):
            group.rmdir()
    else:
        pytest.skip(f"no control groups here have {rows[0][1]}")
    try:
        (group / "cgroup.procs").write_text(str(pid))
        yield group, file, *rest
    finally:
        pathlib.Path(root, "cgroup.procs").write_text(str(pid))
        group.rmdir()


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def readable(stream, seconds):
    return bool(select.select([stream], [], [], seconds)[0])


def until_attached(process):
    """Reads messages of a tracer (a Popen) until its probes are attached; returns them."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if ": tracing " in line:
            return lines
    pytest.fail("not attached: " + "".join(lines))
    return lines


def ended(process, seconds=30):
    """Exit status of a Popen, which must end by itself."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"{process.args} did not end within {seconds} s")


class KernelLog:
    """Messages that the kernel logs from now on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        found = []
        while True:
            try:
                found.append(os.read(self.fd, 8192).decode(errors="replace").split(";", 1)[-1])
            except BlockingIOError:
                return found
            except BrokenPipeError:  # overwritten before it was read
                continue

    def about_uprobes(self, pids):
        """Kernel messages about uprobes; if they name a process, only those about these processes."""
        def ours(line):
            named = re.search(r"pid/tgid=(\d+)/(\d+)", line)
            return not named or int(named[2]) in pids

        return [line for line in self.lines()
                if re.search(r"uprobe|uretprobe|WARNING|BUG:|Oops", line) and ours(line)]

    def close(self):
        os.close(self.fd)


@pytest.fixture
def kernel_log():
    try:
        log = KernelLog()
    except OSError as error:
        pytest.skip(f"/dev/kmsg: {error.strerror}")
    yield log
    log.close()


def patched_bytes(pid, of=""):
    """How many bytes of a process's code differ from the files it is mapped from (those whose paths
    end with `of`): breakpoints."""
    different = 0
    with open(f"/proc/{pid}/maps", encoding="utf8") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            area, mode, offset, _, inode = line.split()[:5]
            if "x" not in mode or inode == "0" or not line.rstrip().endswith(of):
                continue
            start, end = (int(x, 16) for x in area.split("-"))
            with open(f"/proc/{pid}/map_files/{start:x}-{end:x}", "rb") as file:
                file.seek(int(offset, 16))
                original = file.read(end - start)
            memory.seek(start)
            now = memory.read(len(original))
            if now != original:
                different += sum(a != b for a, b in zip(now, original))
    return different


def bpf_objects(pid):
    """Ids of the BPF links, programs and maps that a process holds open."""
    held = set()
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            text = pathlib.Path(f"/proc/{pid}/fdinfo/{name}").read_text(encoding="utf8")
        except OSError:
            continue
        held |= set(re.findall(r"^(link|prog|map)_id:\s*(\d+)", text, re.M))
    return held


# linux/bpf.h; the number of the system call is the architecture's.
SYS_BPF = 321 if platform.machine() == "x86_64" else 280
BPF_GET_FD_BY_ID = {"prog": 13, "map": 14, "link": 30}


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    result = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, command, buffer, len(buffer))
    if result < 0:
        raise OSError(ctypes.get_errno(), "bpf()")
    return result


def bpf_object_exists(kind, number):
    """kind, number: of bpf_objects."""
    try:
        os.close(bpf(BPF_GET_FD_BY_ID[kind], struct.pack("I", int(number))))
    except FileNotFoundError:
        return False
    return True
