# SPDX-License-Identifier: BSD-2-Clause
"""What the user at a terminal sees between command and report: one line, rewritten in place."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
from conftest import PERFX, Program, WORKLOADS, read_terminal

TO_LINE_START = "\r\x1b[K"
FUNCTIONS = ["--memory", "off", "-F", "exceptions:*frame"]


def at_terminal(pid, seconds=1, columns=100, **environment):
    """stderr of a trace, on its own terminal; stdout is not one."""
    try:
        main, secondary = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal to be had here: {error}")
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [PERFX, "-p", str(pid), "-d", f"{seconds}s", "-f", "line", *FUNCTIONS], stdin=secondary,
        stdout=subprocess.DEVNULL, stderr=secondary, env=os.environ | {"TERM": "xterm"} | environment,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0))
    os.close(secondary)
    text = read_terminal(main)
    assert process.wait() == 0, text
    return text


@pytest.fixture(scope="module")
def program():
    p = Program(WORKLOADS / "exceptions")
    yield p
    p.kill()


def test_one_line_in_place(program):
    text = at_terminal(program.pid, 2)
    states = [s for s in re.split(r"\r\x1b\[K|\r\n", text) if s and not s.startswith("perfx-trace: ")]
    assert re.fullmatch(r"attaching [\d,]+ probes?…", states[states.index("loading the BPF programs…") + 1])
    running = [s for s in states if " left" in s]
    assert len(running) >= 2
    assert all(re.fullmatch(r"[012] s left · 0 calls · Ctrl-C stops and reports", s) for s in running)
    # only messages stay: a line shows what was written last on it
    left = [line.split(TO_LINE_START)[-1] for line in text.split("\r\n")]
    assert left.pop() == ""
    assert all(line.startswith("perfx-trace: ") for line in left)
    assert any(": tracing " in line for line in left)


def test_narrow_and_dumb(program):
    states = re.split(r"\r\x1b\[K|\r\n", at_terminal(program.pid, columns=24, NO_COLOR="1"))
    running = [s for s in states if " left" in s]
    assert running and all(len(s) == 23 and s.endswith("…") for s in running)
    assert "\x1b" not in at_terminal(program.pid, TERM="dumb")
