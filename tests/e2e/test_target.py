# SPDX-License-Identifier: BSD-2-Clause
"""Which processes are traced, in which states they may be, and where their code may come from."""
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import (PERFX, WORKLOADS, Program, check_expectations, consistent, ended, functions,
                      known_names, patched_bytes, run, status, total, until_attached, wait_for)

QUICK = ["--no-calibrate"]
OUTER = [*QUICK, "-F", "calls*:outer"]


def pids_of(report):
    return sorted(p["pid"] for p in report["processes"])


# --- the end ---

@pytest.mark.parametrize("link, how", [("session", "auto"), ("multi", "exit"), ("perf", "auto"), ("single", "exit")])
def test_what_was_left_before_the_end_does_not_run_still(link, how, links, program, tracer):
    """The frames above the jump are no longer open on its thread. Waiting and computing calls still
    are."""
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    p = program(WORKLOADS / "longjmp", "last")
    t = tracer(p.pid, *QUICK, "--memory", "off", "--return", how, "-F",
               "longjmp:{jump_*,*_inside}", link=link)
    p.go()
    # past writing "done", whose frames lie below those that the jump has left
    assert wait_for(lambda: status(p.pid, "State").startswith("S"))
    report = t.stop()
    check_expectations(report, p.finish())


# --- choice ---

def test_a_file_that_was_seen_before_has_the_same_plan():
    """The cached facts of large files lead to the same functions, sites and costs as a search of all
    their symbols."""
    with subprocess.Popen([sys.executable, "-c", "import ssl, sqlite3; print(flush=True); input()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        program.stdout.readline()
        asked = ["probes", "-p", program.pid, "-v", "--no-calibrate"]
        searched = run(*asked, "--no-cache").stdout
        first, again = run(*asked).stdout, run(*asked).stdout
        program.stdin.close()
    assert len(searched.splitlines()) > 10
    assert first == searched and again == searched
    assert os.listdir("/var/cache/perfx-trace/symbols")


KEPT = """
set -e
mount -t tmpfs none /var/cache
run="{perfx} run --memory off -F calls:outer -o report.txt -- {calls}"
cd /var/cache
$run <{tmp}/go && stat -c '%n %i %s' perfx-trace/features perfx-trace/calibration
$run <{tmp}/go && stat -c '%n %i %s' perfx-trace/features perfx-trace/calibration
truncate -s 30 perfx-trace/features
chmod 666 perfx-trace/calibration
$run <{tmp}/go && stat -c '%n %i %s' perfx-trace/features perfx-trace/calibration
"""


def test_what_the_kernel_can_do_is_tried_once(tmp_path):
    """The result is cached, as is the cost of a hit. A file that is damaged or that other users could
    have written is replaced."""
    (tmp_path / "go").write_text("go\n")
    script = KEPT.format(perfx=PERFX, calls=WORKLOADS / "calls", tmp=tmp_path)
    result = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    kept = [line.split() for line in result.stdout.splitlines() if line.startswith("perfx-trace/")]
    first, again, anew = kept[:2], kept[2:4], kept[4:]
    assert len(anew) == 2 and again == first
    assert all(a[1] != b[1] and a[2] == b[2] for a, b in zip(first, anew, strict=True))



def test_by_name(program, tracer, tmp_path):
    """Exactly that name, of the file or the thread, and not names that only begin with it."""
    name = f"perfx-t{os.getpid() % 100000}"
    for file in (name, name[:-1], name + "x"):
        shutil.copy(WORKLOADS / "calls", tmp_path / file)
    chosen = [program(tmp_path / name), program(tmp_path / name)]
    for other in (name[:-1], name + "x"):
        program(tmp_path / other)
    t = tracer(name, *QUICK, "-F", "perfx-t*:outer")
    for p in chosen:
        p.go()
    report = t.stop()
    assert pids_of(report) == sorted(p.pid for p in chosen)
    assert [total(report, "outer", "calls", p.pid) for p in chosen] == [1000, 1000]


@pytest.mark.some(1)
@pytest.mark.parametrize("spelling", ["options", "list"])
def test_several_pids(spelling, program, tracer):
    a, b, stranger = (program(WORKLOADS / "calls") for _ in range(3))
    if spelling == "list":
        t = tracer(f"{a.pid},{b.pid}", *OUTER)
    else:
        t = tracer(a.pid, "-p", str(b.pid), *OUTER)
    a.go(2)
    b.go()
    stranger.go()
    report = t.stop()
    assert pids_of(report) == sorted([a.pid, b.pid])
    assert [total(report, "outer", "calls", p.pid) for p in (a, b)] == [2000, 1000]


def test_more_functions_than_room_was_made_for(program, tracer, tmp_path):
    """Tables are made before the size of the plan is known, and made again if it does not fit."""
    shutil.copy(WORKLOADS / "calls-static", tmp_path / "calls-again")
    a, b = program(WORKLOADS / "calls-static"), program(tmp_path / "calls-again")
    t = tracer(f"{a.pid},{b.pid}", *QUICK, "--return", "exit", "--memory", "off", "-F", "calls-*:*")
    for p in (a, b):
        p.go()
    report = t.stop()
    assert len(report["overhead"]["probes"]) > 4096
    for name, calls in (("outer", 1000), ("middle", 2000), ("leaf", 21000)):
        assert [total(report, name, "calls", p.pid) for p in (a, b)] == [calls, calls]


def test_a_thread_is_its_process(program, tracer):
    p = program(WORKLOADS / "threads")
    thread = max(int(t) for t in os.listdir(f"/proc/{p.pid}/task"))
    assert thread != p.pid
    t = tracer(thread, *QUICK, "-F", "threads:work_nested")
    p.go()
    expected = p.finish()
    report = t.stop()
    assert pids_of(report) == [p.pid]
    assert total(report, "work_nested", "calls") == expected["work_nested", "calls"]


@pytest.mark.alone
def test_the_whole_machine(program):
    """-a: every annotated program, also those that start later, each a separate process; no others.
    Other processes of this machine may qualify too and are ignored."""
    early = program(WORKLOADS / "tracked")
    other = program(WORKLOADS / "tracked-stripped")
    nothing = program(WORKLOADS / "calls")
    t = subprocess.Popen([PERFX, "-a", *QUICK, "-d", "60", "-f", "json"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    try:
        until_attached(t)
        late = program(WORKLOADS / "tracked")
        late_static = program(WORKLOADS / "tracked-static")
        time.sleep(1)  # until the tracer knows those
        marked = [early, other, late, late_static]
        for times, p in enumerate(marked, 1):
            p.go(times)
        nothing.go()
        t.send_signal(signal.SIGINT)
        out, err = t.communicate(timeout=60)
    finally:
        t.kill()
    assert t.returncode == 0, err
    report = json.loads(out)
    consistent(report)
    assert nothing.pid not in pids_of(report)
    for times, p in enumerate(marked, 1):
        for name, calls in (("program_step", 1000), ("program_inner", 2000), ("library_inner", 3000)):
            assert total(report, name, "calls", p.pid) == times * calls, (name, times)


def test_no_children(program, tracer):
    p = program(WORKLOADS / "fork")
    t = tracer(p.pid, *QUICK, "-F", "fork:work", "--no-children")
    p.go()
    expected = p.finish()
    report = t.stop()
    assert pids_of(report) == [p.pid]
    assert total(report, "work", "calls") == expected["work", f"calls@{p.pid}"]


@pytest.mark.some(1)  # test_no_children() has the other
@pytest.mark.parametrize("follow", [True, False])
def test_children_that_exist_already(follow, tracer):
    """As with torchrun: the parent was there first, and its child does the work."""
    parent = subprocess.Popen(
        ["sh", "-c", f'"{WORKLOADS}/calls"; :'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, bufsize=1)
    child = int(parent.stdout.readline().split()[1])
    try:
        t = tracer(parent.pid, *OUTER, *([] if follow else ["--no-children"]))
        parent.stdin.write("go\n")
        assert parent.stdout.readline() == "done\n"
        parent.stdin.close()
        assert ended(parent) == 0
        report = t.stop()
    finally:
        parent.kill()
    assert pids_of(report) == sorted([parent.pid, child] if follow else [parent.pid])
    assert total(report, "outer", "calls", child) == (1000 if follow else 0)


@pytest.mark.some(1)
@pytest.mark.parametrize("untraced_ends", [True, False])
def test_a_file_that_others_map(untraced_ends, program, tracer):
    """It gets links by process. Calls of a child before it has its own links are missing, and the
    report says so; nothing counts twice, also when no other process maps the file any more."""
    stranger = program(WORKLOADS / "fork")
    p = program(WORKLOADS / "fork")
    t = tracer(p.pid, *QUICK, "-F", "fork:work")
    if untraced_ends:
        stranger.kill()
    p.go(2)
    expected = p.finish()
    report = t.stop()
    for (name, key), calls in expected.items():
        pid = int(key.partition("@")[2] or 0)
        got = total(report, name, "calls", pid or None)
        assert got == calls if pid == p.pid else got <= calls
    # a child that ended during attaching has a row of its own
    (said,) = [row for row in report["not_attached"]
               if row["name"] == "first moments of forked children"]
    assert said["count"] == len(expected) - 2


# --- its end ---

def test_target_ends_by_itself(program, tracer):
    p = program(WORKLOADS / "calls")
    t = tracer(p.pid, *OUTER)
    p.go()
    p.finish()
    report = t.report(expect=0)
    assert total(report, "outer", "calls") == 1000
    assert not report["capture"]["partial"]


def test_target_is_killed(program, tracer):
    """The recorded part is written and marked partial; exit 3."""
    p = program(WORKLOADS / "calls")
    t = tracer(p.pid, *OUTER)
    p.go()
    p.process.send_signal(signal.SIGKILL)
    report = t.report(expect=3)
    assert total(report, "outer", "calls") == 1000
    assert report["capture"]["partial"]
    assert report["capture"]["partial_reasons"] == ["target_killed"]


@pytest.mark.some(3)
@pytest.mark.parametrize("delay_ms", [20, 120, 250, 0, 60, 180])
def test_target_vanishes_during_attach(delay_ms, program):
    """Killed at any moment of attaching: the end has a documented status, and a message or a report."""
    p = program(WORKLOADS / "calls")
    t = subprocess.Popen([PERFX, "-p", str(p.pid), "-d", "5", "-f", "json", *OUTER],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(delay_ms / 1000)
    p.kill()
    out, err = t.communicate(timeout=30)
    assert t.returncode in (1, 3), err
    assert err.startswith("perfx-trace: ")
    if t.returncode == 3 and out:
        report = json.loads(out)
        nothing = report["verdict"].startswith("Nothing was traced: the program ended before tracing began.")
        assert report["capture"]["partial"] != nothing
        assert ("the program ended before tracing began" in err) == nothing


@pytest.mark.some(1)
@pytest.mark.parametrize("delay_ms", [250, 60, 800])
def test_a_zombie_is_not_waited_for(delay_ms, program):
    """As above, with a target whose parent does not wait for it."""
    p = program(WORKLOADS / "calls")
    t = subprocess.Popen([PERFX, "-p", str(p.pid), "-d", "60", "-f", "json", *OUTER],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(delay_ms / 1000)
    os.kill(p.pid, signal.SIGKILL)
    _, err = t.communicate(timeout=30)
    assert t.returncode in (1, 3), err
    assert err.startswith("perfx-trace: ")


# --- where its code comes from ---

@pytest.mark.some(2)
@pytest.mark.parametrize("what", ["replaced", "renamed", "deleted"])
def test_file_is_no_longer_there(what, program, tracer, tmp_path):
    """The running code is traced, whatever file has its name now."""
    path = tmp_path / "calls"
    shutil.copy(WORKLOADS / "calls", path)
    p = program(path)
    if what == "renamed":
        path.rename(tmp_path / "elsewhere")
    else:
        path.unlink()
    if what == "replaced":
        shutil.copy(WORKLOADS / "recursion", path)
    module = "elsewhere" if what == "renamed" else "calls"
    t = tracer(p.pid, *QUICK, "-F", f"{module}:{{outer,middle,leaf,first_*}}")
    p.go()
    expected = p.finish()
    report = t.stop()
    check_expectations(report, {k: v for k, v in expected.items()
                                if not k[0].startswith(("late_", "loop_"))})


def test_library_is_replaced(program, tracer, tmp_path):
    """As by an upgrade of a package under a running program."""
    for name in ("tracked", "tracked.so"):
        shutil.copy(WORKLOADS / name, tmp_path / name)
    p = program(tmp_path / "tracked")
    (tmp_path / "tracked.so").unlink()
    shutil.copy(WORKLOADS / "late.so", tmp_path / "tracked.so")
    t = tracer(p.pid, *QUICK)
    p.go()
    expected = p.finish()
    check_expectations(t.stop(), expected)


def unshare(*argv):
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed")
    if subprocess.run(["unshare", *argv, "true"], capture_output=True).returncode:
        pytest.skip(f"unshare {' '.join(argv)} is not allowed here")
    return ["unshare", *argv]


def test_other_mount_namespace(tracer, tmp_path):
    """A container's root: the path in maps does not exist outside, but a decoy does."""
    prefix = unshare("-m", "--propagation", "private")
    inside = tmp_path / "inside"
    inside.mkdir()
    shutil.copy(WORKLOADS / "calls-static", inside / "calls-static")
    (tmp_path / "app").mkdir()
    shutil.copy(WORKLOADS / "recursion", tmp_path / "app" / "calls-static")  # the decoy
    script = f'mount --bind "{inside}" "{tmp_path}/app" && exec "{tmp_path}/app/calls-static"'
    p = Program(*prefix, "sh", "-c", script)
    try:
        t = tracer(p.pid, *QUICK, "-F", "calls-static:{outer,middle,leaf}")
        p.go()
        p.finish()
        report = t.stop()
    finally:
        p.kill()
    assert [total(report, n, "calls") for n in ("outer", "middle", "leaf")] == [1000, 2000, 21000]


def test_other_root(tracer, tmp_path):
    """chroot: names, also of a separate debug file, are searched in the target's own root."""
    if not shutil.which("chroot"):
        pytest.skip("chroot is not installed")
    shutil.copy(WORKLOADS / "calls-static", tmp_path / "program")
    p = Program("chroot", str(tmp_path), "/program")
    try:
        t = tracer(p.pid, *QUICK, "-F", "program:outer")
        p.go()
        p.finish()
        report = t.stop()
    finally:
        p.kill()
    assert total(report, "outer", "calls") == 1000


def test_other_pid_namespace(tracer):
    """Its own pid inside is 1 or so; perfx-trace accepts and reports the outer one."""
    prefix = unshare("-p", "-f", "--kill-child")
    p = Program(*prefix, WORKLOADS / "calls")
    assert p.pid < 100
    try:
        children = (f"/proc/{p.process.pid}/task/{p.process.pid}/children")
        with open(children, encoding="utf8") as file:
            pid = int(file.read().split()[0])
        t = tracer(pid, *OUTER)
        p.go()
        p.finish()
        report = t.stop()
    finally:
        p.kill()
    assert pids_of(report) == [pid]
    assert total(report, "outer", "calls") == 1000


def test_from_inside_a_pid_namespace(program):
    """Pids inside differ from those that the kernel reports: an error instead of a wrong trace."""
    prefix = unshare("-p", "-f", "--kill-child")
    p = program(WORKLOADS / "calls")
    result = subprocess.run([*prefix, PERFX, "-p", str(p.pid)], capture_output=True, text=True)
    assert result.returncode == 1
    assert "--pid=host" in result.stderr and len(result.stderr.splitlines()) == 1


def test_a_pattern_waits_for_its_file(program, tracer):
    p = program(WORKLOADS / "dlopen")
    t = tracer(p.pid, *QUICK, "-F", "late.so:late_work", "-F", "never.so:*")
    waiting = [line for line in t.lines if "waiting for it" in line]
    assert len(waiting) == 2 and "late.so:late_work" in waiting[0] and "never.so:*" in waiting[1]
    p.go()  # opens
    assert wait_for(lambda: patched_bytes(p.pid, "late.so"))
    p.go(2)  # calls, closes
    p.finish()
    report = t.stop()
    assert total(report, "late_work", "calls") == 500
    assert [n["name"] for n in report["not_attached"]] == ["never.so:*"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["auto", "exit"])
def test_a_thousand_threads(how, program, tracer):
    p = program(WORKLOADS / "threads", "1000", "20")
    t = tracer(p.pid, *QUICK, "-F", "threads:{work,work_nested}", "--return", how)
    p.go()
    expected = p.finish()
    report = t.stop()
    consistent(report)
    check_expectations(report, expected)
    assert expected["work", "calls"] == 80000


# --- names ---

@pytest.mark.some(2)  # test_known.py has the others
@pytest.mark.parametrize("name", ["calls-nopie", "calls-split", "calls", "calls-static", "calls-stripped"])
def test_kinds_of_file(name, program, tracer):
    """PIE, fixed addresses, static, names in a separate file, only exported names."""
    p = program(WORKLOADS / name)
    t = tracer(p.pid, *QUICK, "-F", f"{name}:{{outer,middle,leaf}}")
    p.go()
    p.finish()
    report = t.stop()
    rows = {f["name"]: (f["calls"], f["module"]) for f in report["processes"][0]["functions"]}
    assert rows == {"outer": (1000, name), "middle": (2000, name), "leaf": (21000, name)}


def test_debug_file_by_build_id(program, tracer, tmp_path):
    """/usr/lib/debug/.build-id in the target's root, where the distribution puts it."""
    notes = subprocess.run(["readelf", "-n", WORKLOADS / "calls-static"], capture_output=True, text=True)
    build_id = [l.split()[-1] for l in notes.stdout.splitlines() if "Build ID" in l]
    if not build_id:
        pytest.skip("this linker writes no build-id")
    folder = tmp_path / "usr/lib/debug/.build-id" / build_id[0][:2]
    folder.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", WORKLOADS / "calls-static",
                    folder / (build_id[0][2:] + ".debug")], check=True)
    subprocess.run(["strip", "-o", tmp_path / "program", WORKLOADS / "calls-static"], check=True)
    p = Program("chroot", str(tmp_path), "/program")
    try:
        t = tracer(p.pid, *QUICK, "-F", "program:outer")
        p.go()
        p.finish()
        report = t.stop()
    finally:
        p.kill()
    assert total(report, "outer", "calls") == 1000


def test_what_names_stand_for(program, tracer):
    """Overloads are separate rows, aliases one row; an IFUNC is reported."""
    p = program(WORKLOADS / "names")
    t = tracer(p.pid, *QUICK, "-F", "names:shapes::area", "-F",
               "names:{one_function,another_name,__internal_name,picked,chosen}")
    p.go(2)
    p.finish()
    report = t.stop()
    areas = functions(report, "shapes::area")
    assert sorted(f["calls"] for f in areas) == [200, 400, 600]
    assert len({f["offset"] for f in areas}) == 3
    assert {f["name"]: f["calls"] for f in report["processes"][0]["functions"]
            if f["name"] != "shapes::area"} == {"another_name": 300, "picked": 100}
    refused = {n["name"]: n["reason"] for n in report["not_attached"]}
    assert list(refused) == ["chosen"] and "IFUNC" in refused["chosen"]


def test_aliases_of_libc(program, tracer):
    """malloc and __libc_malloc are one function at one address: one row, and calls count once."""
    p = program(WORKLOADS / "names")
    t = tracer(p.pid, *QUICK, "-F", "libc.so*:{malloc,__libc_malloc,free,__libc_free}")
    p.go(4)
    p.finish()
    report = t.stop()
    assert {f["name"]: f["calls"] for f in report["processes"][0]["functions"]} == {
        "malloc": 100, "free": 100}


def has_open(pid, path):
    """Whether a process has this file open."""
    fds = [os.path.join(f"/proc/{pid}/fd", fd) for fd in os.listdir(f"/proc/{pid}/fd")]
    return any(os.path.realpath(fd) == os.path.realpath(path) for fd in fds)


def test_a_program_that_ends_while_it_is_being_attached_to(program, tmp_path):
    """The program ends after its file was planned, while the tracer loads its BPF programs. The report
    is complete: it says what happened and what to do instead."""
    p = program(WORKLOADS / "calls")
    tracer = subprocess.Popen(
        [PERFX, "-p", str(p.pid), "-F", "calls:outer", "-o", tmp_path / "report.json"],
        stderr=subprocess.PIPE, text=True)
    assert wait_for(lambda: has_open(tracer.pid, WORKLOADS / "calls"))
    p.kill()
    _, err = tracer.communicate(timeout=60)
    assert tracer.returncode == 3
    assert "the program ended before tracing began: perfx-trace run -- COMMAND traces it" in err
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"].startswith("Nothing was traced: the program ended before tracing began.")
    assert not report["capture"]["partial"]


CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SETUID = 1, 2, 7


def without(*capabilities):
    """Root as seen by a file system that does not trust root (root_squash, FUSE)."""
    PR_CAPBSET_DROP = 24
    libc = ctypes.CDLL(None, use_errno=True)

    def drop():
        for capability in capabilities:
            assert libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0

    return drop


@pytest.fixture
def private_program(program):
    """A program that only its own user, nobody, may read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        path = shutil.copy(WORKLOADS / "calls", place)
        for file in (place, path):
            shutil.chown(file, "nobody", "nogroup")
            os.chmod(file, 0o700)
        yield program(path, user="nobody", group="nogroup", extra_groups=[])


def test_file_that_root_may_not_read(private_program, tracer):
    """It is read as the user of its process."""
    p = private_program
    names = known_names(WORKLOADS / "calls")
    t = tracer(p.pid, "--no-calibrate", *(word for n in names for word in ("-F", f"calls:{n}")),
               preexec_fn=without(CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH))
    p.go()
    expected, report = p.finish(), t.stop()
    consistent(report)
    check_expectations(report, expected)


def test_file_that_nobody_may_read_for_us(private_program):
    """The message names the file and the reason, instead of a missing function."""
    result = run("probes", "-p", private_program.pid, "-F", "calls:no_such",
                 preexec_fn=without(CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SETUID))
    assert result.returncode == 2
    assert re.search(r"'calls:no_such': /tmp/\S+/calls: cannot be read \(permission denied\)", result.stderr)
    assert "no function of that name" not in result.stderr


@pytest.mark.parametrize("name, message", [
    ("calls", "no function of that name is mapped"),
    ("calls-bare", "calls-bare has no symbols (it is stripped)"),
    ("calls-stripped", "no function of that name is mapped (calls-stripped is stripped: "),
])
def test_why_no_function_matches(program, name, message):
    p = program(WORKLOADS / name)
    result = run("probes", "-p", p.pid, "-F", f"{name}:no_such")
    assert result.returncode == 2
    assert f"-F '{name}:no_such': {message}" in result.stderr
