# SPDX-License-Identifier: BSD-2-Clause
"""Injecting a library into running processes (user/inject): it is loaded, and nothing else changes. The
programs repeat the same work and report different results (workloads/injectee.c)."""
import collections
import os
import random
import shutil
import subprocess
import time

import pytest

from conftest import BUILD, EVERYTHING, Program, TOP, WORKLOADS, status, wait_for

INJECT = BUILD / "e2e" / "inject"
LIBRARY = WORKLOADS / "injected.so"
TIMES = 40 if EVERYTHING else 2

Done = collections.namedtuple("Done", "ok refused silent")


def inject(pid, times=1, deadline_ms=5000, library=LIBRARY):
    out = subprocess.run([INJECT, str(pid), library, str(times), str(deadline_ms)],
                         capture_output=True, text=True, timeout=60 + times * (deadline_ms / 1000 + 6)).stdout
    lines = [line.partition(" ") for line in out.splitlines()]
    return Done([text for kind, _, text in lines if kind == "ok"],
                [text for kind, _, text in lines if kind == "refused"],
                sum(kind == "silent" for kind, _, _ in lines))


def finish(program):
    """Not harmed: each result was as before."""
    program.process.stdin.close()
    said = program.process.stdout.read()
    code = program.process.wait(60)
    assert (code, said) == (0, "the same each time\n"), (code, said, program.process.stderr.read())


def why_refused(program, deadline_ms=1000):
    done = inject(program.pid, 1, deadline_ms)
    assert not done.ok and len(done.refused) == 1, done
    return done.refused[0]


# Work, rounds, threads. A round takes about 50 ms.
WORK = [
    ("malloc", 300, 0), ("dlopen", 200, 0), ("fork", 50, 0), ("spawn", 30, 0),
    ("signals", 300, 0), ("jumps", 300, 0), ("timer", 20, 0), ("coroutines", 5000, 0),
    ("vectors", 30, 0), ("vectors", 4, 4),
    ("vectors-asleep", 20, 0), ("read", 2, 0), ("epoll", 2, 0), ("poll-forever", 2, 0), ("nanosleep", 2, 0),
    ("long-nanosleep", 1, 0), ("long-futex", 1, 0),
]
if EVERYTHING:
    WORK += [("nanosleep", 2, 64), ("malloc", 20, 64), ("long-poll", 1, 0), ("long-select", 1, 0),
             ("long-condition", 1, 0), ("fork", 20, 4), ("dlopen", 100, 4), ("spawn", 10, 4)]


@pytest.mark.some(6)
@pytest.mark.parametrize("mode, rounds, threads", WORK)
def test_unharmed(mode, rounds, threads, record_property):
    program = Program(WORKLOADS / "injectee", mode, rounds, threads)
    try:
        done = inject(program.pid, TIMES, 10000)
        record_property("held_ns", sorted(int(line.split()[0]) for line in done.ok))
        print(mode, threads, done)
        assert not done.silent and len(done.ok) + len(done.refused) == TIMES
        assert all(line.startswith("ETIMEDOUT") for line in done.refused), done.refused
        # there may be no safe point in that time: in a loop of dlopen nearly all calls are the loader's
        assert len(done.ok) >= TIMES / 2, done
        finish(program)
    finally:
        program.kill()


@pytest.mark.parametrize("allocator", ["jemalloc.so.2", "tcmalloc_minimal.so.4"])
def test_other_allocators(allocator):
    """Their malloc is called, and has its own locks."""
    found = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    path = [line.split()[-1] for line in found.splitlines() if f"lib{allocator} " in line][0]
    program = Program(WORKLOADS / "injectee", "malloc", 300, env={"LD_PRELOAD": path})
    try:
        done = inject(program.pid, TIMES)
        assert len(done.ok) == TIMES, done
        finish(program)
    finally:
        program.kill()


def test_nothing_stays():
    """Nothing but the library remains: no descriptor, no mapping, no signal mask, no tracer."""
    program = Program(WORKLOADS / "injectee", "malloc", 300)
    status = f"/proc/{program.pid}/status"
    try:
        def state():
            lines = [line.split() for line in open(status)]
            wanted = {line[0]: line[1] for line in lines if line[0] in ("SigBlk:", "TracerPid:", "Threads:")}
            fds = subprocess.run(["ls", f"/proc/{program.pid}/fd"], capture_output=True, text=True).stdout
            maps = [line for line in open(f"/proc/{program.pid}/maps") if "memfd" in line]
            return wanted, fds, maps
        before = state()
        assert inject(program.pid).ok
        time.sleep(0.1)
        after = state()
        assert after[0] == before[0] and after[1] == before[1] and not before[2]
        assert 0 < len(after[2]) < 7, after  # the library's own segments
        assert not any("rwx" in line for line in after[2])
        finish(program)
    finally:
        program.kill()


def test_a_memory_file_keeps_its_size():
    """A program that shortens the file harms neither the tracer, which would get SIGBUS, nor itself."""
    program = Program(WORKLOADS / "injectee", "malloc", 300, 0, "cut")
    try:
        done = inject(program.pid, 4, 20000)
        assert len(done.ok) == 4, done
        finish(program)
    finally:
        program.kill()


@pytest.mark.long
def test_a_file_in_its_place_is_neither_written_nor_run():
    """In some injections the program replaces the file in time, and they are refused; the others succeed."""
    program = Program(WORKLOADS / "injectee", "malloc", 300, 0, "replace")
    try:
        for _ in range(30):
            done = inject(program.pid)
            assert program.process.poll() is None, done
            assert len(done.ok) + len(done.refused) + done.silent == 1, done
            if done.refused and "replaced the library's memory file" in done.refused[0]:
                break
        else:
            pytest.fail("no injection met the other file")
        finish(program)
    finally:
        program.kill()


# Every system call by which the injector changes the process, in turn: it is killed as it enters the
# k-th.
STEPS = ["ptrace", "process_vm_writev", "pidfd_getfd", "pwrite64", "ioctl", "fcntl"] if EVERYTHING else ["ptrace"]


@pytest.mark.parametrize("mode, rounds", [("malloc", 300), ("vectors", 30), ("read", 2), ("epoll", 2)]
                         if EVERYTHING else [("vectors", 30)])
def test_killed_at_each_step(mode, rounds):
    assert shutil.which("strace"), "install strace"
    program = Program(WORKLOADS / "injectee", mode, rounds)
    killed = 0
    try:
        for step in STEPS:
            for k in range(1, 200):
                done = subprocess.run(
                    ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={step}", "-e",
                     f"inject={step}:signal=KILL:when={k}", INJECT, str(program.pid), LIBRARY, "1", "3000"],
                    stdout=subprocess.DEVNULL, timeout=30)
                if done.returncode not in (-9, 137):
                    break
                killed += 1
                assert program.process.poll() is None, f"ended when the {k}th {step} was not done"
        print(mode, "killed", killed)
        assert killed >= 10
        finish(program)
    finally:
        program.kill()


@pytest.mark.parametrize("mode, rounds", [("signals", 300)] + [("malloc", 300), ("timer", 20), ("vectors", 30),
                                                               ("read", 2)] * EVERYTHING)
def test_killed_at_random(mode, rounds):
    """signals: a signal that the injector has received and not yet passed on is not lost."""
    chance = random.Random(1)
    program = Program(WORKLOADS / "injectee", mode, rounds)
    try:
        for _ in range(100 if EVERYTHING else 12):
            injector = subprocess.Popen([INJECT, str(program.pid), LIBRARY, "1000"], stdout=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.01, 0.15))
            injector.kill()
            injector.wait()
            assert program.process.poll() is None
        finish(program)
    finally:
        program.kill()


class Running:
    """A running program of any kind."""

    def __init__(self, *argv, **popen):
        self.process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, text=True, **popen)
        self.pid = self.process.pid
        time.sleep(0.2)

    def kill(self):
        self.process.kill()
        self.process.wait()


def refused(*argv):
    program = Running(*argv)
    try:
        why = why_refused(program)
        assert program.process.poll() is None
        return why
    finally:
        program.kill()


def build(folder, compiler, *flags, body="pause();"):
    source = folder / "sleeper.c"
    source.write_text("#include <unistd.h>\nint main(void) { %s return 0; }\n" % body)
    subprocess.run([compiler, *flags, "-o", folder / "sleeper", source], check=True)
    return folder / "sleeper"


def test_static_is_refused(tmp_path):
    assert "static" in refused(build(tmp_path, "cc", "-static"))


def test_musl_is_refused(tmp_path):
    assert shutil.which("musl-gcc"), "install musl-tools"
    assert "musl" in refused(build(tmp_path, "musl-gcc"))


def test_stopped_is_refused():
    program = Running("sleep", "60")
    try:
        program.process.send_signal(19)
        time.sleep(0.1)
        assert "continue it first" in why_refused(program)
    finally:
        program.kill()


def test_traced_is_refused():
    program = Running("sleep", "60")
    tracer = Running("strace", "-qq", "-o", "/dev/null", "-p", program.pid)
    try:
        assert wait_for(lambda: status(program.pid, "TracerPid") == str(tracer.pid))
        assert f"pid {tracer.pid} traces it already" in why_refused(program)
        assert program.process.poll() is None
    finally:
        tracer.process.terminate()
        tracer.process.wait()
        program.kill()


def test_vfork_child_is_refused(tmp_path):
    """It runs in its parent's memory."""
    program = Running(build(tmp_path, "cc", body="if (!vfork()) { sleep(20); _exit(0); } pause();"))
    children = open(f"/proc/{program.pid}/task/{program.pid}/children").read().split()
    try:
        assert f"in the memory of pid {program.pid}" in inject(children[0], 1, 1000).refused[0]
        assert program.process.poll() is None
    finally:
        subprocess.run(["kill", "-9", *children], check=True)
        program.kill()


def test_memfd_noexec_is_refused():
    """In its own pid namespace; this one does not set it."""
    if not os.path.exists("/proc/sys/vm/memfd_noexec"):
        pytest.skip("this kernel has no vm.memfd_noexec")
    program = Running("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c",
                      "echo 2 > /proc/sys/vm/memfd_noexec && exec sleep 100")
    child = open(f"/proc/{program.pid}/task/{program.pid}/children").read().split()[0]
    try:
        assert "vm.memfd_noexec" in inject(child, 1, 2000).refused[0]
        assert program.process.poll() is None
    finally:
        subprocess.run(["kill", "-9", child], check=True)
        program.kill()


def test_ended_is_refused():
    assert "ended" in inject(4194303).refused[0]
    assert "kernel thread" in inject(2).refused[0]


SECCOMP = """
import ctypes, struct, sys, time
nr, answer = int(sys.argv[1]), int(sys.argv[2], 0)
program = b"".join(struct.pack("HBBI", *insn) for insn in (
    (0x20, 0, 0, 0), (0x15, 0, 1, nr), (6, 0, 0, answer), (6, 0, 0, 0x7fff0000)))
buffer = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, ctypes.c_char_p(struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer))), 0, 0)
while True:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("nr, answer, name", [(319, "0x50001", "memfd_create"), (53, "0x80000000", "socketpair"),
                                              (9, "0x30000", "mmap")])
def test_seccomp_is_refused(nr, answer, name):
    assert f"seccomp filter forbids {name}" in refused("/usr/bin/python3", "-c", SECCOMP, nr, answer)


def test_seccomp_that_allows_it():
    program = Running("/usr/bin/python3", "-c", SECCOMP, 1000, 0)
    try:
        assert inject(program.pid).ok
        assert program.process.poll() is None
    finally:
        program.kill()


@pytest.mark.parametrize("what", ["os._exit(7)", "os.execv('/bin/sh', ['sh', '-c', 'exit 7'])"])
def test_ends_meanwhile(what):
    """A process that exits or executes another program during the injection."""
    for turn in range(20 if EVERYTHING else 2):
        code = ("import os, time\nend = time.monotonic() + %f\nwhile time.monotonic() < end: str(end)\n%s"
                % (0.25 + turn % 10 * 0.013, what))
        program = Running("/usr/bin/python3", "-S", "-c", code)
        done = inject(program.pid, 3, 2000)
        assert program.process.wait(30) == 7, done


@pytest.fixture(scope="module")
def debian_11(tmp_path_factory):
    """A system with glibc 2.31: dlopen is in libdl, or libc's own."""
    root = tmp_path_factory.mktemp("debian-11")
    run = subprocess.run(["debootstrap", "--variant=minbase", "bullseye", root], capture_output=True, text=True,
                         check=False)
    if run.returncode:
        pytest.skip(f"no Debian 11 is to be had here: {run.stdout.splitlines()[-1]}")
    yield root
    shutil.rmtree(root)


@pytest.mark.long
@pytest.mark.parametrize("argv, how", [
    (["perl", "-e", "while (1) { my $x = 'a' x 3000; $y{$i++ % 50} = $x }"], "at the entry of"),
    (["sleep", "100"], "asleep in nanosleep")])
def test_old_glibc(debian_11, tmp_path, argv, how):
    """perl has libdl, sleep has not."""
    library = tmp_path / "plain.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-DPLAIN", "-o", library, "tests/workloads/lib/injected.c"],
                   check=True, cwd=TOP)
    without = Running("chroot", debian_11, *argv)
    try:
        assert "no /proc" in why_refused(without)
    finally:
        without.kill()
    program = Running("unshare", "--mount", "--propagation", "private", "sh", "-c",
                      'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', debian_11, *argv)
    try:
        done = inject(program.pid, 5, library=library)
        assert len(done.ok) == 5 and all(how in line for line in done.ok), done
        # the program's libc refuses a library that needs a newer libc
        assert "dlopen refused" in why_refused(program)
        assert program.process.poll() is None
    finally:
        program.kill()


PYTHON = """
import sys, threading, time
total = 0
def work():
    return sum(len(str(x)) for x in range(20000)) + len(sorted(range(5000), key=lambda x: -x))
first = work()
threads = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range(int(sys.argv[1]))]
[thread.start() for thread in threads]
print("ready", __import__("os").getpid(), flush=True)
import select
while not select.select([0], [], [], 0)[0]:
    assert work() == first
print("the same each time", flush=True)
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("threads", [20, 0])
def test_python(threads):
    program = Program("/usr/bin/python3", "-c", PYTHON, threads)
    try:
        done = inject(program.pid, TIMES * 5)
        assert len(done.ok) == TIMES * 5, done
        finish(program)
    finally:
        program.kill()


TRAINER = """
import sys, os, select, torch
torch.manual_seed(0)
torch.set_num_threads(2)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
start = {k: v.clone() for k, v in model.state_dict().items()}
def train():
    model.load_state_dict(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
first = train()
print("ready", os.getpid(), flush=True)
while not select.select([0], [], [], 0)[0]:
    assert train() == first
print("the same each time", flush=True)
"""


@pytest.mark.long
def test_torch():
    """Losses are equal to the last bit."""
    program = Program("/usr/bin/python3", "-c", TRAINER)
    try:
        done = inject(program.pid, TIMES * 2, 10000)
        print(done)
        assert len(done.ok) == TIMES * 2, done
        finish(program)
    finally:
        program.kill()
