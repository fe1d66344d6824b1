# SPDX-License-Identifier: BSD-2-Clause
"""`perfx-trace run -- CMD`: traced from the first instruction, and otherwise as untraced."""
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import (PERFX, WORKLOADS, check_expectations, ended, expectations, patched_bytes, total, wait_for)

QUICK = ["--no-calibrate"]
EARLY = ["-F", "early*:{early_work,early_library_work,late_work_at_exit}"]


def traced(tmp_path, *argv, options=(), **more):
    """run -o FILE -- argv: subprocess's result, and the report."""
    file = tmp_path / "report.json"
    result = subprocess.run([PERFX, "run", *QUICK, "-o", str(file), *options, "--", *map(str, argv)],
                            timeout=60, **{"capture_output": True, "text": True, **more})
    text = file.read_text() if file.exists() else ""
    return result, json.loads(text) if text else None


@pytest.mark.some(3)
@pytest.mark.parametrize("name, how", [("early", "auto"), ("early-static", "exit"), ("early-static", "auto"),
                                       ("early", "exit")])
def test_from_the_first_instruction(name, how, tmp_path):
    """Calls before and after main are counted, of the program and of its library. _start has no return
    address: a return probe would overwrite argc."""
    result, report = traced(tmp_path, WORKLOADS / name, "7", options=[*EARLY, "-F", "early*:_start", "--return", how])
    assert result.returncode == 7, result.stderr
    assert total(report, "_start", "calls") == 1
    expected = expectations(result.stdout)
    assert expected[("early_work", "calls")] == 113
    check_expectations(report, expected)


@pytest.mark.some(3)
@pytest.mark.parametrize("argv, status", [
    ([WORKLOADS / "early", "255"], 255),
    ([WORKLOADS / "early", "signal", str(int(signal.SIGTERM))], 128 + signal.SIGTERM),
    ([WORKLOADS / "early", "signal", str(int(signal.SIGKILL))], 128 + signal.SIGKILL),
    ([WORKLOADS / "early", "0"], 0),
    (["sh", "-c", "exit 3"], 3),
])
def test_status_is_passed_on(argv, status, tmp_path):
    result, report = traced(tmp_path, *argv)
    assert result.returncode == status, result.stderr
    assert len(report["processes"]) == 1


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["early", "early-static"])
def test_no_return_probe_where_a_program_begins(name, tmp_path):
    result, report = traced(tmp_path, WORKLOADS / name, "7", options=["-F", "early*:_start", "--return", "probe"])
    assert result.returncode == 7, result.stderr
    assert total(report, "_start", "calls") == 1


@pytest.mark.parametrize("kind, status, word", [
    ("missing", 127, "not found"), ("plain", 126, "cannot be executed"),
    ("directory", 126, "cannot be executed"),
])
def test_what_cannot_be_started(kind, status, word, tmp_path):
    """As in a shell: 127 not found, 126 found but not executable. No empty report."""
    (tmp_path / "plain").write_text("no program")
    (tmp_path / "directory").mkdir()
    result, report = traced(tmp_path, tmp_path / kind)
    assert result.returncode == status
    assert word in result.stderr and len(result.stderr.splitlines()) == 1
    assert report is None


def test_streams_are_the_programs_own(tmp_path):
    """stdin, stdout and stderr pass unchanged; perfx-trace's messages go to stderr, in lines."""
    data = bytes(range(256)) * 500
    script = "cat; echo to stderr >&2"
    result, _ = traced(tmp_path, "sh", "-c", script, input=data, text=False)
    assert result.returncode == 0
    assert result.stdout == data
    lines = result.stderr.decode().splitlines()
    assert lines.count("to stderr") == 1
    assert all(line.startswith("perfx-trace: ") for line in lines if line != "to stderr")


def test_descriptors_and_signals_are_a_fresh_programs(tmp_path):
    """The program inherits no descriptors and no ignored or blocked signals."""
    script = "ls /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status; umask; pwd"
    plain = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    result, _ = traced(tmp_path, "sh", "-c", script, cwd=tmp_path)

    def known_signals(text):
        # 32 and 33 are the C library's own: threads reset them if a program inherits them ignored
        return re.sub(r"(Sig\w+:\t)(\w+)",
                      lambda m: f"{m[1]}{int(m[2], 16) & ~(3 << 31):x}", text)

    assert known_signals(result.stdout) == known_signals(plain.stdout)


def test_report_after_the_output_on_one_stream():
    """Without -o the report follows the program's output on the same stream."""
    result = subprocess.run([PERFX, "run", *QUICK, "--", "echo", "first"], capture_output=True,
                            text=True, timeout=60)
    assert result.returncode == 0
    assert result.stdout.startswith("first\n")
    assert "How it was measured" in result.stdout


def start_run(tmp_path, *argv, options=()):
    """In its own session, as from a terminal: signals go to the group."""
    return subprocess.Popen([PERFX, "run", *QUICK, "-o", str(tmp_path / "report.json"), *options,
                             "--", *map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_ctrl_c_reaches_the_program_and_leaves_a_report(tmp_path):
    script = ("import os, signal, sys, time\n"
              "signal.signal(signal.SIGINT, lambda *_: (os.write(1, b'asked\\n'), "
              "time.sleep(0.3), sys.exit(5)))\n"
              "print('ready', flush=True)\n"
              "while True: time.sleep(1)\n")
    run = start_run(tmp_path, sys.executable, "-c", script)
    assert run.stdout.readline() == "ready\n"
    os.killpg(run.pid, signal.SIGINT)
    assert ended(run) == 5, run.stderr.read()
    assert run.stdout.read() == "asked\n"
    assert len(json.loads((tmp_path / "report.json").read_text())["processes"]) == 1


def test_ctrl_c_on_a_program_that_knows_nothing_of_it(tmp_path):
    run = start_run(tmp_path, WORKLOADS / "calls", options=["-F", "calls:outer"])
    assert run.stdout.readline().startswith("ready ")
    run.stdin.write("go\n")
    run.stdin.flush()
    assert run.stdout.readline() == "done\n"
    os.killpg(run.pid, signal.SIGINT)
    assert ended(run) == 128 + signal.SIGINT, run.stderr.read()
    report = json.loads((tmp_path / "report.json").read_text())
    assert total(report, "outer", "calls") == 1000


def test_duration_ends_before_the_program(tmp_path):
    """The recording ends and its report is written; the program continues, and perfx-trace ends with
    it."""
    run = start_run(tmp_path, "sh", "-c", f"{WORKLOADS}/calls; exit 6",
                    options=["-d", "500ms", "-F", "calls:outer"])
    assert run.stdout.readline().startswith("ready ")
    while "is still running, waiting for its exit: Ctrl-C" not in run.stderr.readline():
        assert run.poll() is None
    assert len(json.loads((tmp_path / "report.json").read_text())["processes"]) >= 1
    run.stdin.write("go\n")
    run.stdin.close()
    assert "expect outer calls 1000" in run.stdout.read()
    assert ended(run) == 6, run.stderr.read()


def test_holding_the_program_is_no_wait_of_its_own(tmp_path):
    """Until tracing begins, the tracer keeps it stopped, as a debugger does."""
    _, report = traced(tmp_path, "/bin/sleep", "0.3", options=["--off-cpu", "on"])
    blocked = [row for process in report["processes"] for row in process.get("blocked", [])]
    assert {row["reason"] for row in blocked} >= {"sleep"}
    assert "stopped" not in {row["reason"] for row in blocked}


@pytest.mark.parametrize("sent, status", [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_signals_while_the_end_is_waited_for(sent, status, tmp_path):
    """SIGTERM goes to the program, too; a second Ctrl-C leaves it running."""
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', flush=True); input()"
    run = start_run(tmp_path, sys.executable, "-c", script, options=["--memory", "off", "-d", "200ms"])
    assert run.stdout.readline() == "ready\n"
    while "waiting for its exit" not in run.stderr.readline():
        assert run.poll() is None
    with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="utf8") as children:
        child = int(children.read().split()[0])
    run.send_signal(sent)
    if sent == signal.SIGINT:
        time.sleep(0.2)  # two at the same time count as one
        assert run.poll() is None
        run.send_signal(sent)
    assert ended(run) == status
    alive = os.path.exists(f"/proc/{child}")
    assert alive == (sent == signal.SIGINT)
    if alive:
        os.kill(child, signal.SIGKILL)


def test_children_of_the_program(tmp_path):
    """A launcher like torchrun: its child executes the program that does the work."""
    run = start_run(tmp_path, "sh", "-c", f"{WORKLOADS}/calls; exit 4", options=["-F", "calls:outer"])
    child = int(run.stdout.readline().split()[1])
    assert wait_for(lambda: patched_bytes(child, "calls")), "the tracer does not know the file"
    run.stdin.write("go\n")
    run.stdin.close()
    assert run.stdout.readline() == "done\n"
    assert ended(run) == 4, run.stderr.read()
    report = json.loads((tmp_path / "report.json").read_text())
    assert total(report, "outer", "calls") == 1000
    assert "waiting for it" in run.stderr.read()


# --- under sudo: the remains of the caller's environment ---

USER_SCRIPT = ("import json, os, sys; print(json.dumps({'uid': os.getuid(), 'gid': os.getgid(), "
               "'groups': os.getgroups(), 'cwd': os.getcwd(), "
               "'env': {k: os.environ.get(k) for k in ('PATH', 'VIRTUAL_ENV', 'HOME', 'LAB', "
               "'SUDO_UID')}, 'argv0': sys.executable}))")


def caller_environment(tmp_path):
    """An unprivileged user's shell with a virtual environment, whose python3 is in PATH."""
    nobody = pwd.getpwnam("nobody")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python3").symlink_to(sys.executable)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and str(parent) != "/tmp" and str(parent) != "/":
            parent.chmod(parent.stat().st_mode | 0o011)
    environment = {"PATH": f"{venv}/bin:/usr/bin:/bin", "VIRTUAL_ENV": str(venv), "HOME": "/nowhere",
                   "LAB": "one two\tthree", "USER": "nobody"}
    return nobody, environment


def check_user(result, user, environment, cwd):
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout.splitlines()[0])
    assert (seen["uid"], seen["gid"]) == (user.pw_uid, user.pw_gid)
    assert user.pw_uid == 0 or 0 not in seen["groups"]
    assert seen["cwd"] == str(cwd)
    assert {k: v for k, v in seen["env"].items() if k != "SUDO_UID"} == {
        k: environment.get(k) for k in seen["env"] if k != "SUDO_UID"}


def test_user_as_sudo_leaves_it(tmp_path):
    """Simulated, because sudo may not be installed: a shell with the user's environment starts
    perfx-trace with a clean one and with SUDO_UID and SUDO_GID, as sudo does."""
    nobody, environment = caller_environment(tmp_path)
    inner = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"SUDO_UID={nobody.pw_uid}",
             f"SUDO_GID={nobody.pw_gid}", "HOME=/root", PERFX, "run", *QUICK, "-f", "json",
             "-o", str(tmp_path / "report.json"), "--", "python3", "-c", USER_SCRIPT]
    # the shell stays, as the parent with the caller's environment
    result = subprocess.run(["/bin/sh", "-c", '"$@"; exit $?', "sh", *inner], env=environment,
                            cwd=tmp_path, capture_output=True, text=True, timeout=60)
    check_user(result, nobody, environment, tmp_path)
    assert (tmp_path / "report.json").stat().st_uid == nobody.pw_uid


@pytest.mark.some(2)
@pytest.mark.parametrize("options, uid, home", [([], "nobody", pwd.getpwnam("nobody").pw_dir),
                                                (["--as-root"], "root", "/root"),
                                                (["--user"], "nobody", pwd.getpwnam("nobody").pw_dir)])
def test_user_in_a_root_shell(options, uid, home, tmp_path):
    """sudo -s: the environment is that of sudo, except HOME and the names, which are the user's."""
    nobody = pwd.getpwnam("nobody")
    environment = {"PATH": "/usr/bin:/bin", "SUDO_UID": str(nobody.pw_uid), "SUDO_GID": str(nobody.pw_gid),
                   "HOME": "/root", "USER": "root", "LOGNAME": "root"}
    result = subprocess.run(["/bin/sh", "-c", '"$@"; exit $?', "sh", PERFX, "run", *QUICK, *options, "-o",
                             str(tmp_path / "report.json"), "--", "sh", "-c",
                             "id -un; echo $HOME $USER $LOGNAME"],
                            env=environment, cwd="/", capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [uid, home, uid, uid]


def test_user_by_sudo_itself(tmp_path):
    """root calls sudo, which needs no rule for that: the user stays the same, the environment is
    restored."""
    sudo = shutil.which("sudo")
    if not sudo:
        pytest.skip("sudo is not installed: simulated in test_user_as_sudo_leaves_it")
    _, environment = caller_environment(tmp_path)
    plain = subprocess.run([sudo, "-n", "env"], env=environment, capture_output=True, text=True)
    assert plain.returncode == 0 and "LAB=" not in plain.stdout, "sudo hides the environment"
    result = subprocess.run(
        [sudo, "-n", PERFX, "run", *QUICK, "-o", str(tmp_path / "report.json"), "--",
         "python3", "-c", USER_SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True,
        timeout=60)
    check_user(result, pwd.getpwuid(0), environment, tmp_path)


def test_user_without_sudo_is_who_we_are(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SUDO_")}
    result, _ = traced(tmp_path, "id", "-u", options=["--user"], env=environment)
    assert result.returncode == 0
    assert result.stdout.split()[0] == str(os.getuid())


def test_many_short_programs(tmp_path):
    """Programs that end at once, again and again: nothing hangs, and no status is lost."""
    for status in range(3):
        result, _ = traced(tmp_path, "sh", "-c", f"exit {status}")
        assert result.returncode == status, result.stderr


def ended_facts(tmp_path, *options):
    """The workload 'ended', for a second of CPU time: its own account, and the processes by name."""
    result, report = traced(tmp_path, WORKLOADS / "ended", "1", options=options)
    assert result.returncode == 0, result.stderr
    parent, child = sorted(report["processes"], key=lambda process: process["start_ns"])
    return json.loads(result.stdout.splitlines()[0]), parent, child


@pytest.mark.some(1)
@pytest.mark.parametrize("duration", [(), ("-d", "900ms")])
def test_facts_of_what_has_ended(duration, tmp_path):
    """Memory, times and names of a program, its thread and its child are known until their ends, and
    equal if the recording ends before the program. The kernel counts CPU time by ticks of 4 ms."""
    truth, parent, child = ended_facts(tmp_path, *duration)
    assert parent["rss_peak_bytes"] == pytest.approx(truth["peak_kib"] << 10, abs=1 << 20)
    assert child["rss_peak_bytes"] == pytest.approx(truth["child_kib"] << 10, abs=1 << 19)
    assert 32 << 20 <= parent["rss_bytes"] < 40 << 20, "32 MiB were kept"
    thread = next(thread for thread in parent["threads"] if thread["comm"] == "brief-worker")
    assert thread["on_cpu_ns"] == pytest.approx(truth["thread_s"] * 1e9, abs=12e6)
    assert thread["wall_ns"] >= thread["on_cpu_ns"]
    assert parent["major_faults"] is not None and parent["cpus"] == os.cpu_count()


GROWS = """import time
kept = []
def keep():
    kept.append(bytearray(b"x" * 400_000))
def nap():
    time.sleep(0.01)
end = time.monotonic() + 2.5
while time.monotonic() < end:
    keep()
    nap()
"""


def test_the_same_is_found_cut_or_to_the_end(tmp_path):
    """A program that keeps memory and sleeps; at its exit the interpreter frees all memory. Its sleep
    is its pace, and low in comparison."""
    script = tmp_path / "grows.py"
    script.write_text(GROWS)
    found = {}
    for how, options in (("cut", ("-d", "1500ms")), ("whole", ())):
        result, report = traced(tmp_path, "/usr/bin/python3", script, options=options)
        assert result.returncode == 0, result.stderr
        process, = report["processes"]
        # a leak with live blocks at the end is growing memory; contention by other programs is not a
        # property of it
        found[how] = {finding["class"] for finding in process["findings"]
                      if finding["severity"] != "low" and not finding["kind"].startswith("Cpu")}
    assert found["cut"] == found["whole"] == {"memory"}


BUSY = """import time
def hot():
    end = time.process_time() + 1
    while time.process_time() < end:
        sum(k * k for k in range(3000))
hot()
"""
RUNS = "import subprocess, time\n{}subprocess.run({})"
# torchrun: the job in its own session, checked ten times a second, beside service and keep-alive
# threads
ELASTIC = """import socket, subprocess, sys, threading, time
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=server.accept, daemon=True).start()
def beat():
    while True: time.sleep(0.2)
threading.Thread(target=beat, daemon=True).start()
job = subprocess.Popen({}, stdout=subprocess.PIPE, start_new_session=True)
threading.Thread(target=job.stdout.read, daemon=True).start()
while job.poll() is None: time.sleep(0.1)
"""
# uv run: an event loop that waits for signals, including its child's
SIGNALS = """import asyncio
async def main():
    child = await asyncio.create_subprocess_exec(*{})
    await child.wait()
asyncio.run(main())
"""
POLLS = "import subprocess, time\nchild = subprocess.Popen({})\nwhile child.poll() is None: {}"
WORKS = "end = time.process_time() + 0.5\nwhile time.process_time() < end: sum(range(3000))\n"
LAUNCHERS = {
    "none": lambda command: command,
    "sh": lambda command: ["sh", "-c", " ".join(command) + "; true"],
    "an elastic agent": lambda command: [sys.executable, "-c", ELASTIC.format(command)],
    "timeout": lambda command: ["timeout", "60", *command],
    "env": lambda command: ["env", "A=1", *command],
    "a pipe's reader": lambda command: ["sh", "-c", " ".join(command) + " | cat"],
    "python": lambda command: [sys.executable, "-c", RUNS.format("", command)],
    "python that works before": lambda command: [sys.executable, "-c", RUNS.format(WORKS, command)],
    "the same process": lambda command: [sys.executable, "-c", f"import runpy; runpy.run_path({command[-1]!r})", command[-1]],
    "an event loop": lambda command: [sys.executable, "-c", SIGNALS.format(command)],
    "python that polls": lambda command: [sys.executable, "-c", POLLS.format(command, "time.sleep(0.05)")],
    "python that polls all the time": lambda command: [sys.executable, "-c", POLLS.format(command, "pass")],
}


def job_and_first_finding(folder, launcher):
    """The process with findings, and its first finding that is not about other programs of a busy
    machine."""
    busy = folder / "busy.py"
    busy.write_text(BUSY)
    _, report = traced(folder, *LAUNCHERS[launcher]([sys.executable, str(busy)]))
    jobs = [process for process in report["processes"]
            if any(finding["severity"] != "low" for finding in process["findings"])]
    assert len(jobs) == 1, report["verdict"]
    first = next(finding for finding in jobs[0]["findings"] if finding.get("class") != "contention")
    return report["verdict"], jobs[0], {key: first.get(key) for key in ("kind", "class", "subject", "place")}


@pytest.fixture(name="program_folder", scope="module")
def fixture_program_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("launched")


@pytest.fixture(name="direct", scope="module")
def fixture_direct(program_folder):
    return job_and_first_finding(program_folder, "none")[2]


@pytest.mark.some(2)
@pytest.mark.parametrize("launcher", [name for name in LAUNCHERS if name != "none"])
def test_a_launcher_is_no_finding(launcher, direct, program_folder):
    """The job below it has the same first finding as when it is started directly."""
    verdict, job, first = job_and_first_finding(program_folder, launcher)
    assert first == direct
    # on a busy machine contention may come first
    assert re.match(r"(PYTHON-BOUND|CPU CONTENTION): .* hot[.<>\w]* \(busy\.py:5\)", verdict)
    assert "busy.py" in " ".join(job["cmdline"])
