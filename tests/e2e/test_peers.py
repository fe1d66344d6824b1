# SPDX-License-Identifier: BSD-2-Clause
"""Other tracers on the same function: equal counts, means within a few percent; all at once, and each
alone."""
import json
import re
import shutil
import signal
import subprocess

import pytest
from conftest import WORKLOADS, Tracer, check_expectations, consistent, functions

pytestmark = pytest.mark.alone

NAPS = WORKLOADS / "naps"
TOLERANCE = 0.05


def find(tool, package):
    path = shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin:/usr/local/sbin")
    if not path:
        pytest.skip(f"{tool} is not here: apt-get install {package}")
    return path


class Peer:
    """A tool that prints its result when it is interrupted; the constructor returns when it is
    attached."""

    def __init__(self, argv, *lines):
        """lines: prefixes of all lines that it prints until it is attached."""
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        waiting = set(lines)
        while waiting:
            line = self.process.stdout.readline()
            if not line:
                self.kill()
                pytest.fail(f"{argv[0]} does not attach: {self.process.stderr.read()}")
            waiting = {start for start in waiting if not line.startswith(start)}

    def stop(self):
        """Its output after the interrupt."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return out

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Bpftrace(Peer):
    # bpftrace prints nothing when it is attached. It attaches one probe after the other, in either
    # order: when the first and the last of them work, so do those between.
    SCRIPT = """
        interval:ms:20 { printf("first\\n"); }
        uprobe:PATH:nap { @start[tid] = nsecs; }
        uretprobe:PATH:nap /@start[tid]/ { @ns = stats(nsecs - @start[tid]); delete(@start[tid]); }
        interval:ms:20 { printf("last\\n"); }"""

    def __init__(self, pid):
        printed = [json.dumps({"type": "printf", "data": f"{text}\n"}) for text in ("first", "last")]
        super().__init__([find("bpftrace", "bpftrace"), "-B", "line", "-f", "json", "-p", str(pid),
                          "-e", self.SCRIPT.replace("PATH", str(NAPS))], *printed)

    def seen(self):
        """Calls, and the sum of their durations at least and at most."""
        lines = [json.loads(line) for line in self.stop().splitlines() if line]
        found = next(line["data"]["@ns"] for line in lines if line["type"] == "stats")
        return found["count"], found["total"], found["total"]


class Funclatency(Peer):
    def __init__(self, pid):
        # line-buffered, although it prints to a pipe
        super().__init__(["stdbuf", "-oL", find("funclatency", "libbpf-tools"), "-p", str(pid),
                          ":nap"], "Tracing ")

    def seen(self):
        """It has a histogram and no sum."""
        buckets = [tuple(map(int, line)) for line in
                   re.findall(r"^ *(\d+) -> (\d+) +: (\d+)", self.stop(), re.M)]
        return (sum(count for _, _, count in buckets),
                sum(low * count for low, _, count in buckets),
                sum(high * count for _, high, count in buckets))


class Ours:
    def __init__(self, pid, how):
        self.tracer = Tracer(pid, "-F", "naps:nap", "--return", how)

    def seen(self):
        self.report = self.tracer.stop()
        consistent(self.report)
        row, = functions(self.report, "nap")
        assert row["timed"] == row["calls"]
        return row["calls"], row["total_ns"], row["total_ns"]

    def kill(self):
        self.tracer.kill()


KINDS = {
    "by return probe": lambda pid: Ours(pid, "probe"),
    "at exits": lambda pid: Ours(pid, "exit"),
    "bpftrace": Bpftrace,
    "funclatency": Funclatency,
}


@pytest.fixture
def watch():
    """Calls of nap as each tracer reports them; the program's own values last."""
    started = []

    def start(kind, pid):
        started.append(KINDS[kind](pid))
        return started[-1]

    def run(program, *kinds):
        traced = program(NAPS)
        tracers = {kind: start(kind, traced.pid) for kind in kinds}
        traced.go()
        seen = {kind: tracer.seen() for kind, tracer in tracers.items()}
        expected = traced.finish()
        for tracer in tracers.values():
            if isinstance(tracer, Ours):
                check_expectations(tracer.report, expected)
        own_ns = expected["nap", "own_ns"]
        return {**seen, "the program": (expected["nap", "calls"], own_ns, own_ns)}

    yield run
    for tracer in started:
        tracer.kill()


def check_agreement(seen):
    calls = {kind: count for kind, (count, _, _) in seen.items()}
    assert len(set(calls.values())) == 1 and all(calls.values()), calls
    # with equal counts the means differ as the sums do
    for kind, (_, low_ns, _) in seen.items():
        for other, (_, _, high_ns) in seen.items():
            assert low_ns <= high_ns * (1 + TOLERANCE), f"{kind}, {other}: {seen}"


def test_all_at_once(program, watch):
    check_agreement(watch(program, *KINDS))


@pytest.mark.some(2)  # perfx-trace
@pytest.mark.parametrize("kind", KINDS)
def test_one_after_another(kind, program, watch):
    """Each beside the program's own clock, because no two runs are disturbed alike."""
    check_agreement(watch(program, kind))
