# SPDX-License-Identifier: BSD-2-Clause
"""perfx.profile: runs perfx-trace on this process for the duration of a call."""
import inspect
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

from . import _notebook
from ._library import prefixes, source_tree
from ._result import ProfileResult
from ._track import is_tracked, track

NO_PRIVILEGE = 77  # perfx-trace's exit status
FOREVER = "10000000"  # seconds; a signal stops the tracer earlier
# {}: the tracer's path; sudo does not search virtual environments.
HOW_TO_GET_PRIVILEGE = (
    "tracing takes root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE. Either run this program with "
    "sudo; or let perfx.profile call sudo: PERFX_TRACE='sudo -n {0}'; or give the tracer "
    "the capabilities: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep {0}. "
    "`perfx-trace doctor` says what works here")


class ProfilingError(RuntimeError):
    """The call could not be traced. If the error occurs after the call, `.result` has the call's
    result; otherwise the function was not called."""

    result = None


def find_tracer():
    """The tracer's command, as a list."""
    if os.environ.get("PERFX_TRACE"):
        return shlex.split(os.environ["PERFX_TRACE"])
    places = [str(source_tree() / "build")] if source_tree() else []
    places += [str(prefix / "bin") for prefix in prefixes()]
    found = shutil.which("perfx-trace", path=os.pathsep.join(
        places[:1] + [os.environ.get("PATH", os.defpath)] + places[1:]))
    if not found:
        raise ProfilingError("perfx-trace not found: build it and `sudo make install`, or pip install its wheel (make "
                             "wheel), or set PERFX_TRACE=/path/to/perfx-trace")
    return [found]


class Tracer:
    """A perfx-trace that is attached to this process once the constructor returns."""

    def __init__(self, command, options, timeout):
        self.messages = []
        self.attached = threading.Event()
        argv = [*command, "-p", str(os.getpid()), "-d", FOREVER, "-f", "json", "-o", "-", *options]
        try:
            # Its own session: Ctrl-C goes to the program only, which then stops the tracer.
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True)
        except OSError as error:
            raise ProfilingError(f"{argv[0]}: {error.strerror}: set "
                                 "PERFX_TRACE=/path/to/perfx-trace") from error
        self.reader = threading.Thread(target=self.read, name="perfx-profile", daemon=True)
        self.reader.start()
        if not self.attached.wait(timeout):
            self.kill()
            raise ProfilingError(f"{argv[0]} did not attach within {timeout} s" + self.said())
        if not self.is_tracing():
            self.process.wait()
            raise self.failure()

    def read(self):
        """Reads the tracer's messages until it exits."""
        for line in self.process.stderr:
            self.messages.append(line.decode(errors="replace").rstrip("\n"))
            if self.is_tracing():
                self.attached.set()
        self.attached.set()

    def is_tracing(self):
        return any(": tracing " in line for line in self.messages)

    def said(self):
        return "".join("\n  " + line for line in self.messages)

    def failure(self):
        self.reader.join()
        code = self.process.returncode
        if code == NO_PRIVILEGE:
            return ProfilingError("not enough privilege to trace this process: "
                                  f"{HOW_TO_GET_PRIVILEGE.format(self.process.args[0])}.{self.said()}")
        return ProfilingError(f"{self.process.args[0]} ended with {code}{self.said()}")

    def stop(self):
        """Ends the recording. Returns the report as a dict."""
        try:
            self.process.send_signal(signal.SIGINT)
        except PermissionError:  # sudo accepts signals only from root and its terminal
            subprocess.run(["sudo", "-n", "kill", "-INT", str(self.process.pid)], check=False)
        text = self.process.stdout.read()
        self.process.wait()
        self.close()
        try:
            return json.loads(text)
        except ValueError:
            raise self.failure() from None

    def kill(self):
        try:
            self.process.kill()
        except PermissionError:
            pass
        self.process.wait()
        self.close()

    def close(self):
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


def wait_for(result):
    """JAX returns before its work is done; the rest of the work belongs to the call."""
    jax = sys.modules.get("jax")
    if jax:
        jax.block_until_ready(result)


class Capture:
    """The file of --capture, from which an HTML report can be made: in a notebook a temporary one, which lives as long
    as this; elsewhere only if the options name one."""

    def __init__(self, command, options):
        self.command, self.options = command, []
        self.path = options[options.index("--capture") + 1] if "--capture" in options[:-1] else None
        if not self.path and _notebook.is_notebook():
            self.folder = tempfile.TemporaryDirectory(prefix="perfx-")  # pylint: disable=consider-using-with
            self.path = os.path.join(self.folder.name, "profile.perfx")
            self.options = ["--capture", self.path]

    def html(self):
        """The page, or None without a file."""
        if not self.path:
            return None
        made = subprocess.run([*self.command, "report", self.path, "-f", "html", "-o", "-"], capture_output=True,
                              check=False)
        if made.returncode:
            raise ProfilingError(made.stderr.decode(errors="replace"))
        return made.stdout.decode(errors="replace")


class Profiler:
    """perfx.profile with options: Profiler("-F", "libfast.so:*").profile(fn, …).

    options   further options of perfx-trace
    tracer    the command, a str or a list; by default PERFX_TRACE, else the installed perfx-trace
    timeout   seconds that attaching may take
    """

    def __init__(self, *options, tracer=None, timeout=60):
        self.options = [os.fspath(option) for option in options]
        self.tracer = [tracer] if isinstance(tracer, (str, os.PathLike)) else tracer
        self.timeout = timeout

    def profile(self, fn, /, *args, **kwargs):
        if inspect.iscoroutinefunction(fn):
            raise TypeError("perfx.profile: a call of a coroutine function only creates a coroutine: "
                            "use perfx.profile(asyncio.run, main())")
        tracked = fn if is_tracked(fn) else track(fn)
        command = self.tracer or find_tracer()
        capture = Capture(command, self.options)
        with _notebook.Progress() as progress:
            tracer = Tracer(command, self.options + capture.options, self.timeout)
            progress.begin("recording")
            try:
                result = tracked(*args, **kwargs)
                wait_for(result)
            except BaseException:
                tracer.kill()
                raise
            progress.begin("making the report")
            try:
                return result, ProfileResult(tracer.stop(), os.getpid(), capture.html)
            except ProfilingError as error:
                error.result = result
                raise


def profile(fn, /, *args, **kwargs):
    """Calls fn(*args, **kwargs) while perfx-trace traces all threads of this process. Returns its
    result and a ProfileResult. Raises ProfilingError if tracing fails, and the exceptions of fn."""
    return Profiler().profile(fn, *args, **kwargs)
