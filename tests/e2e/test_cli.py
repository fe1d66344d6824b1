# SPDX-License-Identifier: BSD-2-Clause
"""The command line for new users: messages that correct wrong usage, prompts on a terminal, messages
beside an output file, reductions, completion."""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from conftest import PERFX, WORKLOADS, run, until_attached
from test_input import one_line, small_capture  # noqa: F401  pylint: disable=unused-import

SPIN = "import sys, time; print('ready', flush=True); end = time.time() + 120\nwhile time.time() < end: sum(range(999))"


# --- wrong usage ---

@pytest.mark.parametrize("words, says", [
    ("python3 train.py", "to start a program: perfx-trace run -- python3 train.py"),
    ("train.py", "to start a program: perfx-trace run -- python3 train.py"),
    ("my\\ train.py --lr '1 2'", "to start a program: perfx-trace run -- python3 'my train.py' --lr '1 2'"),
    ("-d 5 --memory off python3 train.py -d 3",
     "to start a program: perfx-trace run -d 5 --memory off -- python3 train.py -d 3"),
    ("-- python3 train.py", "to start a program: perfx-trace run -- python3 train.py"),
    ("record -o a.perfx python3 train.py", "to start a program: perfx-trace run -o a.perfx -- python3 train.py"),
    ("./starts", "to start a program: perfx-trace run -- ./starts"),
    ("starts", "to start a program: perfx-trace run -- ./starts"),
    ("rprt", "no verb 'rprt': did you mean report?"),
    ("exprot a.perfx", "no verb 'exprot': did you mean export?"),
    ("help reprt", "no verb 'reprt': did you mean report?"),
    ("'my run.perfx'", "to report from a capture: perfx-trace report 'my run.perfx'"),
    ("1234", "unexpected argument '1234': a process is named with -p: -p 1234"),
    ("record 1234 -o a.perfx", "unexpected argument '1234': a process is named with -p: -p 1234"),
    ("-p 1 report", "the verb comes first: perfx-trace report ..."),
    ("--duraton 5 -p 1", "unknown option '--duraton': did you mean --duration?"),
    ("-duration 5 -p 1", "unknown option '-duration': did you mean --duration?"),
    ("report a.perfx --formt md", "unknown option '--formt': did you mean --format?"),
    ("--st 5 -p 1", "'--st' can be --step-range, --stacks, --steps: write out one of them"),
    ("-p", "-p needs a value: -p PID|NAME[,...]"),
    ("--pid", "--pid needs a value: --pid PID|NAME[,...]"),
    ("-p 1 -d 0", "-d '0': must be longer than 0"),
    ("./missing", "unexpected argument './missing'"),
])
def test_wrong_ways_lead_to_the_right_one(words, says, tmp_path):
    starts = tmp_path / "starts"
    starts.write_text("#!/bin/sh\n")
    starts.chmod(0o755)
    result = subprocess.run(["bash", "-c", f"'{PERFX}' {words}"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert says in one_line(result, 2)


@pytest.mark.parametrize("words, code, says", [
    (["train.py"], 127, "to start a script: perfx-trace run -- python3 train.py"),
    (["--", "./train.py"], 126, "to start a script: perfx-trace run -- python3 ./train.py"),
    (["starts"], 127, "not found in PATH: perfx-trace run -- ./starts"),
    (["--", "starting"], 127, "starting: not found"),
])
def test_scripts_are_not_programs(words, code, says, tmp_path):
    (tmp_path / "train.py").write_text("")
    (tmp_path / "starts").write_text("#!/bin/sh\n")
    (tmp_path / "starts").chmod(0o755)
    assert says in one_line(run("run", *words, cwd=tmp_path), code)


# --- processes by name ---

@pytest.fixture
def alike(tmp_path):
    """Two processes with a unique name; one of them has a child with the same name, as a DataLoader has workers."""
    name = f"alike{os.getpid()}"
    program = shutil.copy(os.path.realpath(sys.executable), tmp_path / name)
    (tmp_path / "one.py").write_text(SPIN)
    (tmp_path / "two.py").write_text("import os, time\nif not os.fork():\n    time.sleep(120)\n    os._exit(0)\n" + SPIN)
    home = {**os.environ, "PYTHONHOME": sys.base_prefix}
    processes = [subprocess.Popen([program, f"{word}.py", "--token=hidden"], stdout=subprocess.PIPE, text=True, env=home,
                                  cwd=tmp_path) for word in ("one", "two")]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    yield name, processes
    for process in processes:
        subprocess.run(["pkill", "-KILL", "-P", str(process.pid)], check=False)
        process.kill()
        process.wait()


def test_all_of_a_name_are_traced_and_named(alike, tmp_path):
    name, (one, two) = alike
    result = run("record", "-p", name, "-d", "100ms", "--no-calibrate", "-o", tmp_path / "a.perfx", stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    line, = [line for line in result.stderr.splitlines() if "are named" in line]
    both = ", ".join(f"{p.pid} {name} {word}.py --token=*** (root)" for p, word in ((one, "one"), (two, "two")))
    assert line == f"perfx-trace: 2 processes are named {name}, all are traced: {both}", "the worker is no third"
    assert f"tracing {one.pid} " in result.stderr and "and 2 more" in result.stderr


class Terminal:
    """perfx-trace on its own terminal, operated by this test."""

    def __init__(self, *argv, columns=80, cwd=None):
        pid, self.main = pty.fork()
        if not pid:
            os.chdir(cwd or "/")
            os.execve(PERFX, [str(PERFX), *map(str, argv)], {**os.environ, "TERM": "xterm"})
        self.pid, self.text, self.code = pid, "", None
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.main], [], [], seconds)[0]:
            try:
                self.text += os.read(self.main, 65536).decode(errors="replace")
            except OSError:  # the program has ended
                return False
        return True

    def until(self, words, seconds=60):
        end = time.monotonic() + seconds
        while words not in self.text:
            assert time.monotonic() < end and self.read(0.5), f"nobody says {words}: {self.text}"

    def type(self, text):
        os.write(self.main, text.encode())

    def end(self, seconds=60):
        end = time.monotonic() + seconds
        while self.read(0.5):
            assert time.monotonic() < end, self.text
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.main)
        return self.code


@pytest.mark.parametrize("by_number", [True, False])
def test_a_terminal_is_asked_for_one(by_number, alike, tmp_path):
    name, (one, two) = alike
    terminal = Terminal("-p", name, "-d", "100ms", "--no-calibrate", "-o", tmp_path / "a.md", columns=200)
    terminal.until("Enter: all ")
    assert f"2 processes are named {name}:" in terminal.text
    numbers = dict(re.findall(r"(\d+)\) (\d+) ", terminal.text))
    assert set(numbers.values()) == {str(one.pid), str(two.pid)}
    terminal.type("7\n")
    terminal.until("Enter: all 7\r\nWhich one?")
    terminal.type((next(n for n, pid in numbers.items() if pid == str(one.pid)) if by_number else str(one.pid)) + "\n")
    assert terminal.end() == 0, terminal.text
    assert f"tracing {one.pid} {name[:15]}:" in terminal.text, "and no other"


def test_no_answer_traces_nothing(alike, tmp_path):
    terminal = Terminal("-p", alike[0], "-o", tmp_path / "a.md")
    terminal.until("Enter: all ")
    terminal.type("\x03")
    assert terminal.end() == 2 and "no process was chosen" in terminal.text
    assert not os.listdir(tmp_path) or not (tmp_path / "a.md").exists()


def test_a_shell_is_traced_by_its_children(tmp_path):
    shell = subprocess.Popen(["bash", "-c", f"'{sys.executable}' -c \"{SPIN}\" & wait"], stdout=subprocess.PIPE, text=True)
    assert shell.stdout.readline() == "ready\n"
    child = int(subprocess.run(["pgrep", "-P", str(shell.pid)], capture_output=True, text=True, check=True).stdout)
    try:
        result = run("-p", shell.pid, "-d", "100ms", "--no-calibrate", "-o", tmp_path / "a.md")
        assert re.search(rf"process {shell.pid} is a shell \(bash\): its children are traced: {child} \S*python", result.stderr)
        result = run("-p", shell.pid, "-d", "100ms", "--no-calibrate", "--no-children", "-o", tmp_path / "a.md")
        assert "without --no-children the programs that it starts are traced" in result.stderr
    finally:
        os.kill(child, signal.SIGKILL)
        shell.wait()


# --- messages beside an output file ---

def test_the_verdict_and_the_file_are_said(program, tmp_path):
    p = program(WORKLOADS / "calls")
    report, capture = tmp_path / "a.md", tmp_path / "a.perfx"
    result = run("-p", p.pid, "-d", "300ms", "--no-calibrate", "-o", report, "--capture", capture)
    assert result.returncode == 0, result.stderr
    verdict = next(line for line in report.read_text().splitlines() if line.startswith("**")).strip("*")
    *_, kept, said, written = result.stderr.splitlines()
    assert kept == f"perfx-trace: {capture}: written: perfx-trace report {capture}"
    assert said.removeprefix("perfx-trace: ").split(":")[0] in verdict.replace("\\", "")
    assert written == f"perfx-trace: {report}: written"
    assert run("report", capture, "-o", report).stderr == "", "for scripts as it was"
    assert "written" not in run("-p", p.pid, "-d", "100ms", "--no-calibrate", "-f", "md").stderr


@pytest.mark.parametrize("words, says", [
    ([], "the recording is dropped, no report is written"),
    (["--capture", "a.perfx"], "a.perfx has the recording but for its last half second"),
    (["-o", "old.perfx"], "old.perfx.part has the recording but for its last half second"),
    (["-o", "a.perfx", "--flight", "5s"], "the flight recorder's memory is dropped"),
])
def test_a_second_ctrl_c_says_what_is_lost(words, says, program, tmp_path, small_capture):  # noqa: F811
    (tmp_path / "old.perfx").write_bytes(small_capture)
    p = program(WORKLOADS / "calls")
    tracer = subprocess.Popen([PERFX, "-p", str(p.pid), "-d", "60", *words], cwd=tmp_path, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True)
    until_attached(tracer)
    os.kill(tracer.pid, signal.SIGSTOP)  # both signals are pending when it continues
    os.kill(tracer.pid, signal.SIGINT)
    os.kill(tracer.pid, signal.SIGTERM)
    os.kill(tracer.pid, signal.SIGCONT)
    assert tracer.wait(30) == 130
    line, = [line for line in tracer.stderr.read().splitlines() if "ended at once" in line]
    assert says in line
    left = re.search(r"perfx-trace report (\S+)", line)
    assert not left or run("report", left[1], cwd=tmp_path).returncode == 0
    assert (tmp_path / "old.perfx").read_bytes() == small_capture


def test_an_output_that_is_no_file(tmp_path, small_capture):  # noqa: F811
    """The message names the true reason for any suffix."""
    capture = tmp_path / "a.perfx"
    capture.write_bytes(small_capture)
    for words in (["report", capture], ["export", capture], ["diff", capture, capture]):
        assert "/tmp: is a directory: name a file in it" in one_line(run(*words, "-o", "/tmp"), 2)
    line = one_line(run("report", capture, "-f", "json", "-o", "/proc/x"), 1)
    assert "takes no new files" in line


def test_a_text_to_a_full_disk():
    for words in (["--help"], ["--version"], ["top", "--help"], ["explain"], ["explain", "DataBound"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([PERFX, *words], stdout=full, stderr=subprocess.PIPE, text=True)  # pylint: disable=subprocess-run-check
        assert "stdout: no space left" in one_line(result, 1)
        with subprocess.Popen([PERFX, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as early:
            early.stdout.close()  # quitting a pager is not a failure
            assert early.wait(10) == 0 and not early.stderr.read()


def test_a_suffix_of_several_formats(tmp_path, small_capture):  # noqa: F811
    capture = tmp_path / "a.perfx"
    capture.write_bytes(small_capture)
    line = one_line(run("export", capture, "-o", tmp_path / "run.json"), 2)
    assert line.endswith("run.json: its suffix has several formats: add -f chrome (.trace.json) or -f speedscope "
                         "(.speedscope.json)")
    assert run("export", capture, "-o", tmp_path / "run.json", "-f", "chrome").returncode == 0
    assert '"traceEvents"' in (tmp_path / "run.json").read_text()
    assert run("export", capture, "-o", tmp_path / "run.json", "--of", "cpu").returncode == 0
    assert "speedscope" in (tmp_path / "run.json").read_text()
    assert "report writes this format" in one_line(run("export", capture, "-o", tmp_path / "a.md"), 2)
    assert "export writes this format" in one_line(run("report", capture, "-o", tmp_path / "a.pftrace"), 2)
    assert ".pftrace" in one_line(run("export", capture, "-o", tmp_path / "a.foo"), 2)


def test_another_kind_of_file(tmp_path, small_capture):  # noqa: F811
    """The message says what the file is and which kind is needed."""
    files = {"empty": b"", "page.html": b"<!doctype html>", "notes.txt": b"hello\n", "a.gz": b"\x1f\x8b\x08rest", "a.bin": b"\x01\x02\x03",
             "cut.perfx": small_capture[:200], "next.perfx": b"PERFXCAP\x63" + small_capture[9:]}
    says = {"empty": "an empty file; needed: ", "page.html": "an HTML or XML file; needed: ", "notes.txt": "a text file; needed: ",
            "a.gz": "unpack it first; needed: ", "a.bin": "a file of another kind; needed: ", "cut.perfx": "nothing to compare",
            "next.perfx": "a capture of another version"}
    capture = tmp_path / "whole.perfx"
    capture.write_bytes(small_capture)
    (tmp_path / "folder").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name, say in {**says, "folder": "a directory; needed: "}.items():
        for pair in ((tmp_path / name, capture), (capture, tmp_path / name)):
            result = run("diff", *pair)
            *_, line = result.stderr.splitlines()
            assert result.returncode == 1 and f"{name}: " in line and say in line, result.stderr
            assert ("or JSON report" in line) == ("needed" in line)
    (tmp_path / "report.json").write_text("{}")
    assert "a JSON file; needed: a capture" in one_line(run("report", tmp_path / "report.json"), 1)


# --- reductions ---

MALLOC = "import time; print('ready', flush=True); end = time.time() + 120\nwhile time.time() < end: [bytes(700) for _ in range(999)]"


@pytest.mark.long
def test_reductions(tmp_path):
    """On a terminal each line replaces the previous one; elsewhere the last state is printed once."""
    program = subprocess.Popen([sys.executable, "-c", MALLOC], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "ready\n"
        result = run("record", "-p", program.pid, "-d", "4", "-o", tmp_path / "a.perfx")
        lines = [line for line in result.stderr.splitlines() if " since " in line]
        assert 1 <= len(lines) <= 2, result.stderr
        assert re.fullmatch(r"perfx-trace: overhead budget: host allocations .* since [\d.]+ s: .*; --memory sampled keeps them", lines[-1])
        terminal = Terminal("record", "-p", program.pid, "-d", "4", "-o", tmp_path / "a.perfx")
        assert terminal.end() == 0
    finally:
        program.kill()
        program.wait()
    shown = [part for part in terminal.text.split("\r\n") if "host allocations" in part]
    assert all("\x1b[A\x1b[Kperfx-trace: overhead budget: host allocations" in part for part in shown[1:]), shown
    assert "--memory sampled keeps them" in shown[-1], "the last one is whole"


# --- bash without the package bash-completion ---

COMPLETION = Path(__file__).resolve().parents[2] / "docs/completions/perfx-trace.bash"


@pytest.mark.parametrize("line, candidates", [
    ("perfx-trace re", ["record", "report"]),
    ("perfx-trace --memory ", ["off", "tensor", "all", "sampled"]),
    ("perfx-trace --memory=te", ["tensor"]),
    ("perfx-trace --duraton", []),
    ("perfx-trace report run", ["run one.perfx", "run.perfx"]),
    ("perfx-trace report run\\ o", ["run one.perfx"]),
    ("perfx-trace run -- ./st", ["./start.sh"]),
    ("perfx-trace run -- cat ru", ["run one.perfx", "run.perfx"]),
    ("perfx-trace explain PythonB", ["PythonBound"]),
])
def test_bash_alone_completes(line, candidates, tmp_path):
    for name in ("run.perfx", "run one.perfx", "start.sh"):
        (tmp_path / name).touch(0o755)
    script = (f"source '{COMPLETION}'; COMP_LINE=$1 COMP_POINT=${{#1}}; _perfx_trace; "
              "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"; declare -F _init_completion")
    result = subprocess.run(["bash", "--norc", "--noprofile", "-c", script, "-", line], cwd=tmp_path, text=True,
                            capture_output=True, env={**os.environ, "PATH": f"{os.path.dirname(PERFX)}:{os.environ['PATH']}"})
    assert sorted(set(result.stdout.splitlines())) == sorted(candidates), result.stderr


def test_tab_completes(tmp_path):
    """Presses Tab in an interactive shell that has only this completion."""
    pid, main = pty.fork()
    if not pid:
        os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"],
                  {"PATH": f"{os.path.dirname(PERFX)}:/usr/bin:/bin", "TERM": "dumb", "PS1": "$ ", "HOME": str(tmp_path)})
    text = ""
    os.write(main, f"source '{COMPLETION}'\nperfx-trace --mem\t".encode())
    try:
        end = time.monotonic() + 30
        while "--memory " not in text:
            assert time.monotonic() < end, text
            text += os.read(main, 4096).decode()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(main)
