# SPDX-License-Identifier: BSD-2-Clause
"""The traced program continues as if untraced, whatever it does and however the tracer ends."""
import ctypes
import json
import os
import platform
import re
import signal
import struct
import subprocess
import time

import pytest
from conftest import (BPF_GET_FD_BY_ID, LINKS, PERFX, TOP, WORKLOADS, bpf, bpf_object_exists, bpf_objects,
                      check_expectations, consistent, functions, known_names, patched_bytes, total,
                      until_attached, wait_for)
from trainers import has_torch

QUICK = ["--no-calibrate"]

# Programs that a return probe, or a wrong assumption about stacks, would break.
PROGRAMS = {
    "exceptions": [], "exceptions-static": [], "unwind": [], "unwind-cxx": [], "coroutines": [],
    "stackswitch": [], "stackswitch migrate": ["migrate"], "panic": [], "longjmp": [],
    "longjmp above": ["above"], "recursion": [],
}
# make test runs these: the others are alike
FIRST = [("exceptions", "auto"), ("exceptions-static", "exit"), ("unwind-cxx", "auto"), ("stackswitch migrate", "auto"),
         ("longjmp", "exit"), ("panic", "auto")]
RUNS = sorted([(name, link, how) for name in PROGRAMS
               for link in LINKS for how in ("auto", "exit")
               if link not in ("multi", "single") or how == "auto"],
              key=lambda run: (run[0], run[2]) not in FIRST)


@pytest.mark.some(6)
@pytest.mark.parametrize("name, link, how", RUNS)
def test_goes_on(name, link, how, links, program, tracer, kernel_log):
    """Exits with 0, by its own checks; every call is counted; the kernel's log is empty."""
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    file, arguments = name.split()[0], PROGRAMS[name]
    if not (WORKLOADS / file).exists():
        pytest.skip(f"{file} is not built here")
    names = known_names(WORKLOADS / file, 1, *arguments)
    p = program(WORKLOADS / file, *arguments)
    t = tracer(p.pid, *QUICK, "--return", how, link=link,
               *(word for n in names for word in ("-F", f"{file}:{{{n},*::{n}}}")))
    p.go()
    expected = p.finish()
    report = t.stop()
    consistent(report)
    if "migrate" in arguments:
        # A call that another thread ends is one call of unknown time, because no frame of that thread
        # waits for it. Two are open when the coroutine moves, one in each direction.
        for (function, key), value in expected.items():
            if key == "calls":
                assert total(report, function, "calls") == value
        assert 0 < report["losses"]["unmatched_returns"] <= 4
    else:
        check_expectations(report, expected)
    assert kernel_log.about_uprobes([p.pid]) == []


@pytest.mark.parametrize("what", ["-F 'stackswitch:*'", "--probe-site entry"])
def test_stack_switch_itself_is_traced(what, program, tracer, kernel_log):
    """Probes on the function that loads the stack pointer, and at entries."""
    options = ["-F", "stackswitch:*"] if "-F" in what else [
        "--probe-site", "entry", "-F", "stackswitch:{consume,next_value,yield_value,produce}"]
    p = program(WORKLOADS / "stackswitch", "migrate")
    t = tracer(p.pid, *QUICK, *options)
    p.go(2)
    p.finish()
    t.stop()
    assert kernel_log.about_uprobes([p.pid]) == []


def test_two_tracers_of_two_programs(program, tracer):
    """Probes of two tracers at the same places of one file: exceptions pass both."""
    path = WORKLOADS / "exceptions"
    patterns = [word for n in known_names(path) for word in ("-F", f"exceptions:{{{n},*::{n}}}")]
    programs = [program(path) for _ in range(2)]
    tracers = [tracer(p.pid, *QUICK, *patterns) for p in programs]
    for p in programs:
        p.go()
    for p, t in zip(programs, tracers):
        expected = p.finish()
        assert any(key == "unwound" and value for (_, key), value in expected.items())
        check_expectations(t.stop(), expected)


def test_wrong_shapes_in_pytorch(program, tracer, kernel_log):
    """torch.mm inside try/except, 500 times: general tools kill the process at the first exception."""
    python = "/usr/bin/python3"
    if not has_torch(python):
        pytest.skip(f"{python} has no torch (Debian: python3-torch)")
    p = program(python, TOP / "tests/workloads/mm_errors.py")
    t = tracer(p.pid, *QUICK, "-F", "libtorch_cpu*:at::_ops::*mm*::call")
    p.go(2)
    expected = p.finish()
    report = t.stop()
    assert expected["mm::call", "unwound"] == 1000
    mm = functions(report, "at::_ops::mm::call")
    assert sum(f["calls"] for f in mm) == expected["mm::call", "calls"]
    assert sum(f["unwound"] for f in mm) == expected["mm::call", "unwound"]
    assert report["losses"]["unmatched_entries"] == report["losses"]["unmatched_returns"] == 0
    assert kernel_log.about_uprobes([p.pid]) == []


# --- the tracer is killed or stopped at any moment ---

def gone(objects):
    return not any(bpf_object_exists(kind, number) for kind, number in objects)


@pytest.mark.some(3)
@pytest.mark.parametrize("delay_ms", [200, 30, 500, 100, 300])
def test_tracer_is_killed(delay_ms, program):
    """SIGKILL while it loads, attaches, traces: the program continues, its code is unpatched, and the
    kernel has no objects of the tracer."""
    p = program(WORKLOADS / "calls")
    t = subprocess.Popen([PERFX, "-p", str(p.pid), *QUICK, "-F", "calls:*", "-F", "libc.so*:*alloc*"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + delay_ms / 1000
    objects = set()
    while time.monotonic() < end:
        objects |= bpf_objects(t.pid)
    t.kill()
    t.wait()
    p.go()
    assert wait_for(lambda: patched_bytes(p.pid) == 0), "breakpoints are left"
    assert wait_for(lambda: gone(objects)), "BPF objects are left"
    p.finish()


def test_what_the_test_above_looks_for_exists(program, tracer):
    """While tracing, breakpoints are in the code and links, programs and maps in the kernel."""
    p = program(WORKLOADS / "calls")
    assert patched_bytes(p.pid) == 0
    t = tracer(p.pid, *QUICK, "-F", "calls:{outer,middle,leaf}")
    p.go()
    assert patched_bytes(p.pid) >= 3
    objects = bpf_objects(t.process.pid)
    assert {kind for kind, _ in objects} == {"link", "prog", "map"}
    assert not gone(objects)
    t.stop()
    assert patched_bytes(p.pid) == 0
    assert wait_for(lambda: gone(objects))
    p.finish()


@pytest.mark.some(3)
@pytest.mark.parametrize("delay_ms", [0, 100, 200, 50, 150, 250, 300, 400, 600, 900, 1500])
def test_ctrl_c_at_any_moment(delay_ms, program):
    """0 with a report, or 130 and nothing; soon; the program unharmed."""
    p = program(WORKLOADS / "calls")
    t = subprocess.Popen([PERFX, "-p", str(p.pid), "-d", "60", "-f", "json", "-F", "calls:*"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(delay_ms / 1000)
    t.send_signal(signal.SIGINT)
    out, err = t.communicate(timeout=10)
    assert t.returncode in (0, 130, -signal.SIGINT), err
    # before main it has no handler
    assert t.returncode != -signal.SIGINT or delay_ms <= 50
    if t.returncode == 0:
        assert json.loads(out)["schema"] == "perfx.report/1"
    else:
        assert out == ""
    p.go()
    assert patched_bytes(p.pid) == 0
    p.finish()


# Each other test that stops a tracer sends SIGINT.
@pytest.mark.some(2)
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_signal_once_is_a_report(number, program, tracer):
    p = program(WORKLOADS / "calls")
    t = tracer(p.pid, *QUICK, "-F", "calls:outer")
    p.go()
    t.process.send_signal(number)
    if number == signal.SIGHUP:
        t.process.send_signal(number)  # signals from the terminal and from the shell
    assert total(t.report(), "outer", "calls") == 1000
    p.finish()


def test_second_ctrl_c_aborts(program, tracer):
    """130 at once, also if the report cannot be written because nobody reads it."""
    p = program(WORKLOADS / "calls")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)  # full
    except BlockingIOError:
        os.set_blocking(writer, True)
    t = subprocess.Popen([PERFX, "-p", str(p.pid), "-d", "60", *QUICK, "-F", "calls:*"], stdout=writer,
                         stderr=subprocess.PIPE, text=True)
    until_attached(t)
    t.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        t.wait(0.5)
    start = time.monotonic()
    t.send_signal(signal.SIGINT)
    assert t.wait(10) == 130
    assert time.monotonic() - start < 5
    os.close(reader)
    os.close(writer)
    p.go()
    assert wait_for(lambda: patched_bytes(p.pid) == 0)
    p.finish()


@pytest.mark.some(2)
@pytest.mark.parametrize("name, how", [("exceptions", "auto"), ("calls", "exit"), ("calls", "auto"),
                                       ("threads", "exit"), ("exceptions", "exit"), ("threads", "auto")])
def test_two_tracers_at_once(name, how, program, tracer):
    """Both are exact: neither mistakes the other's return probes for the program's code."""
    names = known_names(WORKLOADS / name)
    patterns = [word for n in names for word in ("-F", f"{name}:{{{n},*::{n}}}")]
    p = program(WORKLOADS / name)
    one = tracer(p.pid, *QUICK, *patterns, "--return", how)
    other = tracer(p.pid, *QUICK, *patterns)
    p.go()
    expected = p.finish()
    for report in (one.stop(), other.stop()):
        consistent(report)
        check_expectations(report, expected)


def test_a_program_under_a_debugger(program, tracer):
    """strace stops at every system call and signal; the program is traced and undisturbed."""
    strace = subprocess.run(["sh", "-c", "command -v strace"], capture_output=True, text=True)
    if strace.returncode:
        pytest.skip("strace is not installed")
    p = program(WORKLOADS / "longjmp")
    debugger = subprocess.Popen([strace.stdout.strip(), "-f", "-o", "/dev/null", "-p", str(p.pid)],
                                stderr=subprocess.DEVNULL)
    try:
        assert wait_for(lambda: debugger.poll() is not None or
                        "TracerPid:\t0" not in open(f"/proc/{p.pid}/status").read())
        t = tracer(p.pid, *QUICK, "-F", "longjmp:{jump_*,plain,raise_*,handler_*,interrupted}")
        p.go()
        expected = p.finish()
        check_expectations(t.stop(), expected)
    finally:
        debugger.kill()
        debugger.wait()


# linux/bpf.h, where struct bpf_prog_info is too.
BPF_PROG_TYPE_KPROBE = 2
BPF_OBJ_GET_INFO_BY_FD = 15


def machine_code(number):
    """The type, name and compiled code of a BPF program."""
    fd = bpf(BPF_GET_FD_BY_ID["prog"], struct.pack("I", number))
    code = ctypes.create_string_buffer(1 << 20)
    info = ctypes.create_string_buffer(256)
    struct.pack_into("<I", info, 16, len(code))
    struct.pack_into("<Q", info, 24, ctypes.addressof(code))
    bpf(BPF_OBJ_GET_INFO_BY_FD, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
    os.close(fd)
    kind, size = struct.unpack_from("<I", info, 0)[0], struct.unpack_from("<I", info, 16)[0]
    return kind, info.raw[64:80].rstrip(b"\0").decode(), code.raw[:size]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86 machine code")
def test_programs_use_the_stack_of_their_thread(program, tracer):
    """A per-CPU stack would be overwritten by the next thread's hit: bpf/perfx.bpf.h."""
    p = program(WORKLOADS / "calls")
    t = tracer(p.pid, *QUICK, "--memory", "all")
    numbers = set()
    descriptors = f"/proc/{t.process.pid}/fdinfo"
    for entry in os.listdir(descriptors):
        with open(f"{descriptors}/{entry}", encoding="ascii") as file:
            numbers |= {int(n) for n in re.findall(r"^prog_id:\s*(\d+)", file.read(), re.M)}
    programs = [machine_code(n) for n in numbers]
    uprobes = {name: code for kind, name, code in programs if kind == BPF_PROG_TYPE_KPROBE}
    # names have 15 characters
    assert {"perfx_on_mark", "perfx_on_memory"} < set(uprobes)
    assert "perfx_on_hit" in uprobes or "perfx_on_sessio" in uprobes  # by the kind of link
    for name, code in uprobes.items():
        # movabs $stack, %r9; add %gs:this_cpu_off, %r9
        assert not re.search(rb"\x49\xb9.{8}\x65\x4c\x03\x0c\x25", code, re.S), name
    p.go()
    p.finish()
    t.stop()


ENDLESS_LINES = r"""
.section .debug_abbrev, "", %progbits
    .uleb128 1, 0x11
    .byte 0
    .uleb128 0x11, 1, 0x12, 7, 0x10, 0x17, 0, 0
    .byte 0
.section .debug_info, "", %progbits
    .long unit_end - unit
unit: .short 4
    .long .debug_abbrev
    .byte 8, 1
    .quad spin, 64
    .long .debug_line
unit_end:
.section .debug_line, "", %progbits
    .long line_end - line
line: .short 4
    .long rows - header
header: .byte 1, 1, 1, -5, 14, 13, 0,1,1,1,1,0,0,0,1,0,0,1, 0
    .asciz "f.c"
    .byte 0, 0, 0, 0
rows: .byte 0, 9, 2
    .quad spin
    .fill 20000000, 1, 0x20
    .byte 0, 1, 1
line_end:
.section .note.GNU-stack, "", %progbits
"""
SPINS = r"""
#include <time.h>
__attribute__((noinline)) void spin(volatile int *x) { for (int i = 0; i < 100000; i++) ++*x; }
int main(void) { volatile int x = 0; for (time_t end = time(0) + 120; time(0) < end;) spin(&x); }
"""


def test_a_line_table_of_twenty_million_rows(tmp_path):
    """The file has no source lines, which the report says once; its functions have names."""
    (tmp_path / "lines.S").write_text(ENDLESS_LINES)
    (tmp_path / "spins.c").write_text(SPINS)
    subprocess.run("cc -O1 -o spins spins.c lines.S && "
                   "objcopy --compress-debug-sections=zlib spins",
                   shell=True, check=True, cwd=tmp_path)
    with subprocess.Popen([tmp_path / "spins"]) as p:
        try:
            with subprocess.Popen([PERFX, "-p", str(p.pid), "-d", "500ms", *QUICK,
                                   "-o", tmp_path / "x.json"]) as t:
                _, status, usage = os.wait4(t.pid, 0)
                t.returncode = os.waitstatus_to_exitcode(status)
        finally:
            p.kill()
    report = json.loads((tmp_path / "x.json").read_text())
    said = [row["reason"] for row in report["not_attached"] if row["name"] == "source lines"]
    assert t.returncode == 0
    # the largest of the tracer and its children
    assert usage.ru_maxrss < 500 << 10
    assert len(said) == 1 and said[0].startswith(f"no lines of {tmp_path}/spins: ")
    assert '"spin' in json.dumps(report["processes"])
