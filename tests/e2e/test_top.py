# SPDX-License-Identifier: BSD-2-Clause
"""perfx-trace top: the contents of its screen, in a terminal of tmux, and the restored terminal
afterwards."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import PERFX, WORKLOADS, Program, run, wait_for

OPTIONS = ["-F", "ticks:t?ck", "--memory", "off", "--max-overhead", "off"]
RATES = {"tick": 400, "tock": 100}  # calls a second
KEYS = "h Help  Tab View"  # of the last line


@pytest.fixture
def ticks():
    """A workload whose functions are called at known rates."""
    p = Program(WORKLOADS / "ticks")
    yield p
    if p.process.poll() is None:
        assert p.finish() == {(name, "a_second"): rate for name, rate in RATES.items()}
    p.kill()


class Screen:
    """A terminal with a shell."""

    def __init__(self, place, width, height):
        self.place = place
        self.tmux("-f", "/dev/null", "-u", "new-session", "-d", "-x", str(width), "-y", str(height),
                  "sh", LC_ALL="C.UTF-8", PS1="$ ")
        self.type("echo what was there before")

    def tmux(self, *argv, **environment):
        env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR", "COLUMNS", "LINES")}
        env |= {"TMUX_TMPDIR": str(self.place), "TERM": "screen"} | environment
        return subprocess.run(["tmux", "-L", "top", *argv], env=env, check=True, capture_output=True, text=True).stdout

    def type(self, line):
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def lines(self):
        return self.tmux("capture-pane", "-p").split("\n")[:-1]

    def text(self):
        return "\n".join(self.lines())

    def shows(self, words, seconds=20):
        """Waits for words, or a regular expression."""
        found = wait_for(lambda: re.search(words, self.text()), seconds)
        assert found, f"{words}\n{self.text()}"
        return self.text()

    def is_left(self):
        """The alternate screen is closed, the cursor is visible, and keys are as before."""
        return self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{keypad_cursor_flag}") == "0 1 0\n"

    def top(self, pid, *options):
        """Starts top; the shell prints its exit status, and the terminal's settings before and
        after."""
        argv = " ".join([PERFX, "top", "-p", str(pid), *OPTIONS, *options])
        script = self.place / "top.sh"
        script.write_text(f"stty -g > {self.place}/before\nsh -c 'echo $$ > {self.place}/pid; exec {argv}'\n"
                          f"code=$?\nstty -g > {self.place}/after\necho top ended with $code\n")
        self.type(f"sh {script}")
        self.shows("Self %.*Function")

    def pid(self):
        return int((self.place / "pid").read_text())

    def ended(self, code):
        text = self.shows(rf"top ended with {code}\b")
        assert (self.place / "before").read_text() == (self.place / "after").read_text()
        assert self.is_left()
        assert "what was there before" in text.replace("\n", "")  # tmux may have wrapped it meanwhile
        assert KEYS not in text and "Self %" not in text
        return text

    def end(self):
        subprocess.run(["tmux", "-L", "top", "kill-server"], env=os.environ | {"TMUX_TMPDIR": str(self.place)},
                       capture_output=True)


@pytest.fixture
def screen(tmp_path):
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    started = []

    def start(width=100, height=30):
        started.append(Screen(tmp_path, width, height))
        return started[-1]

    yield start
    for s in started:
        s.end()


def rates(frames, name):
    """Calls per second of a function in each frame: the third column."""
    return [float(calls.replace(",", "")) for calls in re.findall(rf"^ *\S+ % +\S+ \S+ +([\d,.]+) .* {name}$", frames, re.M)]


# --- frames ---


def test_frames_where_there_is_no_terminal(ticks):
    result = run("top", "-p", ticks.pid, "-n", 3, *OPTIONS)
    assert result.returncode == 0, result.stderr
    frames = result.stdout.split("perfx-trace top ")[1:]
    assert len(frames) == 3
    for frame in frames:
        assert f"(pid {ticks.pid})" in frame and "Tracing" in frame
        for title in ("Function", r"Line \(sampled\)", "Waits for", "Evidence", "Allocated at"):
            assert re.search(title + "$", frame, re.M), frame
        assert all(len(line) <= 100 for line in frame.split("\n"))
    assert "\x1b" not in result.stdout
    for name, truth in RATES.items():
        seen = rates(result.stdout, name)
        assert sum(seen) / len(seen) == pytest.approx(truth, rel=0.1), seen


def test_frames_for_a_duration(ticks):
    result = run("top", "-p", ticks.pid, "-d", "2500ms", "--top", 1, *OPTIONS, env=os.environ | {"COLUMNS": "60"})
    assert result.returncode == 0, result.stderr
    frames = result.stdout.split("perfx-trace top ")[1:]
    assert 2 <= len(frames) <= 3
    assert len(re.findall(r" (tick|tock)$", frames[-1], re.M)) == 1
    assert all(len(line) <= 60 for line in result.stdout.split("\n"))


def test_reader_that_has_seen_enough(ticks):
    process = subprocess.Popen([PERFX, "top", "-p", str(ticks.pid), *OPTIONS], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 0, process.stderr.read()
    process.stderr.close()


# --- a screen ---


def test_rows_and_rates(ticks, screen):
    s = screen()
    s.top(ticks.pid)
    text = s.shows(r"perfx-trace top .* [3-9]\.\d\d s")
    s.press("q")
    s.ended(0)
    for name, truth in RATES.items():
        seen = rates(text, name)
        assert len(seen) == 1 and seen[0] == pytest.approx(truth, rel=0.1), text


def test_names_that_mean_harm(screen, tmp_path):
    """A hostile program name: colors, cursor movement, wide characters."""
    hostile = tmp_path / "\x1b[31m\x1b[H日本"
    shutil.copy(WORKLOADS / "ticks", hostile)
    program = Program(hostile)
    s = screen(80, 24)
    s.top(program.pid, "-F", "*:t?ck")
    lines = s.lines()
    assert lines[0].startswith(r"perfx-trace top  \x1b[31m\x1b[H日本 (pid "), lines[0]
    assert lines[-1].startswith(KEYS)
    s.press("q")
    s.ended(0)
    program.kill()


def elapsed(text):
    return re.search(r"([\d.]+ (?:s|min))(?: · PAUSED)?\s*$", text.split("\n", 1)[0])[1]


def test_keys(ticks, screen):
    s = screen()
    s.top(ticks.pid)
    views_and_rows(s)
    pause(s)
    sizes(s)
    message(s)  # at 80×24
    s.press("q")
    assert "perfx-trace: report.nonsense: unknown suffix" in s.ended(0)


def views_and_rows(s):
    for key, title in (("2", r"Line \(sampled\)"), ("3", "Waits for"), ("4", "Evidence"), ("5", "Allocated at"),
                       ("Tab", "Function"), ("BTab", "Allocated at"), ("1", "Function")):
        s.press(key)
        s.shows(title)
    s.press("s")
    s.shows("by Self %")
    s.press("r")
    s.shows("by Self %, reversed")
    s.press("/", "t", "o")
    s.shows("Filter: to_")
    assert rates(s.text(), "tock") and not rates(s.text(), "tick")
    s.press("Enter")
    s.shows("/to")
    s.press("Escape")
    assert wait_for(lambda: rates(s.text(), "tick"))
    s.press("h")
    s.shows("any key: back")
    s.press("x")
    s.shows(KEYS)


def pause(s):
    s.press("p")
    stands = elapsed(s.shows("PAUSED"))
    time.sleep(1.5)  # a frame a second
    assert elapsed(s.text()) == stands
    s.press("p")
    assert wait_for(lambda: elapsed(s.text()) != stands, 10)


def sizes(s):
    for width, height in ((80, 24), (200, 60), (30, 8), (10, 2), (80, 24)):
        s.resize(width, height)

        def fits():
            lines = s.lines()
            return len(lines) == height and lines[-1].startswith(KEYS[:min(width, 6)])
        assert wait_for(fits, 10), s.text()
        assert all(len(line) <= width for line in s.lines())
    s.shows("tock")


def message(s):
    """It does not cover the keys."""
    s.press("w", "C-u")
    s.tmux("send-keys", "-l", "report.nonsense")
    s.press("Enter")
    s.shows("\nreport.nonsense: unknown suffix")
    *_, line, keys = s.lines()
    assert line.startswith("report.nonsense") and re.match(KEYS + ".*q Quit", keys), s.text()


@pytest.mark.some(1)
@pytest.mark.parametrize("number_", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
                         ids=["TERM", "INT", "HUP"])
def test_signals_end_it_in_order(ticks, screen, number_):
    s = screen()
    s.top(ticks.pid)
    os.kill(s.pid(), number_)
    s.ended(0)


@pytest.mark.some(1)
@pytest.mark.parametrize("number_", [signal.SIGSEGV, signal.SIGQUIT, signal.SIGABRT],
                         ids=["SEGV", "QUIT", "ABRT"])
def test_signals_that_end_it_at_once(ticks, screen, number_):
    """The terminal is restored, and the shell sees the signal that ended it."""
    s = screen()
    s.top(ticks.pid)
    os.kill(s.pid(), number_)
    s.ended(128 + number_)


def test_second_signal(ticks, screen):
    s = screen()
    s.top(ticks.pid)
    os.kill(s.pid(), signal.SIGSTOP)  # both come before it can detach
    os.kill(s.pid(), signal.SIGTERM)
    os.kill(s.pid(), signal.SIGINT)
    os.kill(s.pid(), signal.SIGCONT)
    s.ended(130)


def test_target_that_is_killed(ticks, screen):
    s = screen()
    s.top(ticks.pid)
    os.kill(ticks.pid, signal.SIGKILL)
    s.ended(3)
    assert f"process {ticks.pid} was killed by signal 9 (Killed)" in s.text()


def write(s, path):
    s.press("w", "C-u")
    s.tmux("send-keys", "-l", str(path))
    s.press("Enter")
    s.shows(re.escape(f"{path}: written"), 30)


def test_report_and_capture_of_the_last_seconds(ticks, screen, tmp_path):
    s = screen(160, 40)
    s.top(ticks.pid)
    s.shows(r" [2-9]\.\d\d s")
    write(s, tmp_path / "last.json")
    write(s, tmp_path / "last.perfx")
    s.press("q")
    s.ended(0)
    report = json.loads((tmp_path / "last.json").read_text())
    calls = {f["name"]: f["calls"] for p in report["processes"] for f in p["functions"]}
    assert calls["tick"] > RATES["tick"] and calls["tick"] == pytest.approx(4 * calls["tock"], rel=0.1)
    again = run("report", tmp_path / "last.perfx", "-f", "line")
    assert again.returncode == 0 and "tock=" in again.stdout, again.stderr
    assert not list(tmp_path.glob("*.part"))


def test_terminal_that_is_not_known(ticks, screen):
    s = screen()
    s.type(f"TERM=nonsense {PERFX} top -p {ticks.pid} {' '.join(OPTIONS)}; echo ended with $?")
    text = s.shows("ended with 1")
    assert "TERM=nonsense: no such terminal is known" in text
    assert s.is_left()


def test_terminal_that_cannot_move_its_cursor(ticks, screen):
    s = screen()
    s.type(f"TERM=dumb {PERFX} top -p {ticks.pid} {' '.join(OPTIONS)} -n 1; echo ended with $?")
    text = s.shows("ended with 0")
    assert "Allocated at" in text and "h Help" not in text
