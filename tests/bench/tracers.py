# SPDX-License-Identifier: BSD-2-Clause
"""The tracers: perfx-trace, an empty BPF program, and peers. Each is started on a process, reports when
it is attached, and is stopped."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import subjects

PACKAGES = {"funclatency": "libbpf-tools", "bpftrace": "bpftrace"}


def find(tool):
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin:/usr/local/sbin")


def missing():
    """How to install missing peers."""
    return {tool: package for tool, package in PACKAGES.items() if not find(tool)}


started = []


@atexit.register
def end_all():
    """Detaches everything, also after an error."""
    for process in started:
        if process.poll() is None:
            process.terminate()


def start(command, **pipes):
    process = subprocess.Popen(command, text=True, stderr=subprocess.PIPE, **pipes)
    started.append(process)
    return process


def memory_bytes(pid, field):
    """A field of /proc/PID/status; 0: the process has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


class Perfx:
    """perfx-trace -p PID with a JSON report."""

    def __init__(self, build, pid, *options, timeout=60):
        self.output = tempfile.NamedTemporaryFile(suffix=".json")
        self.started = time.perf_counter()
        self.process = start(
            [os.path.join(build, "perfx-trace"), "-p", str(pid), "-d", "1h", "-o",
             self.output.name, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.said = []
        deadline = self.started + timeout
        while True:
            line = self.process.stderr.readline()
            self.said.append(line.rstrip())
            if line.startswith("perfx-trace: tracing "):
                break
            if not line or time.perf_counter() > deadline:
                self.process.kill()
                self.process.wait()
                raise RuntimeError("perfx-trace does not attach: " + " / ".join(self.said))
        self.attach_seconds = time.perf_counter() - self.started

    def cpu_seconds(self):
        return subjects.cpu_seconds(self.process.pid)

    def rss_anon_bytes(self):
        return memory_bytes(self.process.pid, "RssAnon")

    def rss_peak_bytes(self):
        return memory_bytes(self.process.pid, "VmHWM")

    def stop(self):
        """Ends it and returns the report."""
        self.process.send_signal(signal.SIGINT)
        return self.report()

    def report(self):
        """Waits for the end."""
        start = time.perf_counter()
        self.said += self.process.stderr.read().splitlines()
        status = self.process.wait()
        self.detach_seconds = time.perf_counter() - start
        if status:
            raise RuntimeError(f"perfx-trace ended with {status}: " + " / ".join(self.said))
        with open(self.output.name, encoding="utf-8") as file:
            report = json.load(file)
        self.output.close()
        return report


class Empty:
    """A BPF program that does nothing, on the same instructions."""

    def __init__(self, bench, pid, path, offsets, by_return=False):
        command = [os.path.join(bench, "empty_probe")] + ["--return"] * by_return
        self.process = start(command + [str(pid), path] + [str(offset) for offset in offsets],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.process.stdout.readline().strip() != "attached":
            raise RuntimeError(self.process.stderr.read().strip())

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Peer:
    """A tool that does not report when it is attached: detected by the time of a call."""

    def __init__(self, command, subject, base_ns, timeout=60):
        self.process = start(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.perf_counter() + timeout
        while subject.run(10)[2] < base_ns + 100:
            if self.process.poll() is not None or time.perf_counter() > deadline:
                self.process.kill()
                said = self.process.communicate()[1].strip().splitlines()
                raise RuntimeError(f"{command[0]} does not attach: {' / '.join(said[-2:])}")
        time.sleep(0.3)  # its other probes

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


def code_differs(pid, path):
    """Whether a process's code differs from its file: it has breakpoints."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        areas = [line.split() for line in maps if line.rstrip().endswith(path)]
    with open(f"/proc/{pid}/mem", "rb") as memory, open(path, "rb") as file:
        for area, mode, offset, *_ in areas:
            if "x" not in mode:
                continue
            start, end = (int(x, 16) for x in area.split("-"))
            memory.seek(start)
            file.seek(int(offset, 16))
            now = memory.read(end - start)
            if now != file.read(end - start).ljust(len(now), b"\0"):
                return True
    return False


class Patched(Peer):
    """A peer whose attaching and detaching is detected in the process's code."""

    def __init__(self, command, pid, path, timeout=60):  # pylint: disable=super-init-not-called
        self.pid, self.path = pid, path
        self.process = start(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.perf_counter() + timeout
        while not code_differs(pid, path):
            if self.process.poll() is not None or time.perf_counter() > deadline:
                self.process.kill()
                said = self.process.communicate()[1].strip().splitlines()
                raise RuntimeError(f"{command[0]} does not attach: {' / '.join(said[-2:])}")
            time.sleep(0.05)
        time.sleep(1)  # its other probes

    def stop(self):
        super().stop()
        deadline = time.perf_counter() + 30
        while code_differs(self.pid, self.path) and time.perf_counter() < deadline:
            time.sleep(0.05)


def funclatency(subject, base_ns):
    return Peer([find("funclatency"), "-p", str(subject.pid), f":{subject.function}"], subject,
                base_ns)


def bpftrace(subject, base_ns):
    at = f"probe:{subject.path}:{subject.function}"
    script = (f"u{at} {{ @start[tid] = nsecs; }} "
              f"uret{at} /@start[tid]/ {{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); }}")
    return Peer([find("bpftrace"), "-p", str(subject.pid), "-e", script], subject, base_ns)
