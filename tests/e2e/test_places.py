# SPDX-License-Identifier: BSD-2-Clause
"""Programs in containers: -a finds all of them, reads files from each one's root, and the report names
their containers. Containers are made as by runtimes: namespaces of mounts, pids, host names and users,
an overlay of one image as root, a control group."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import PERFX, TOP, WORKLOADS, Program, run, total, wait_for

QUICK = ("--no-calibrate", "--memory", "off", "--stacks", "off", "--observe", "off",
         "--max-overhead", "off")
NAMESPACES = ("-U", "-m", "-p", "-u", "-i", "-f", "--map-root-user", "--kill-child",
              "--propagation", "private")
UID = "2f1e8d7c-0b1a-4c2d-8e3f-9a0b1c2d3e4f"
# Becomes the program, in its own root: ROOT IMAGE UPPER WORK HOSTNAME PROGRAM
BECOME = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def must(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
root, image, upper, work, name, program = sys.argv[1:]
must(libc.mount(b"overlay", root.encode(), b"overlay", 0,
                f"lowerdir={image},upperdir={upper},workdir={work}".encode()))
must(libc.mount(b"proc", f"{root}/proc".encode(), b"proc", 0, None))
must(libc.sethostname(name.encode(), len(name)))
with open(f"{root}/etc/hostname", "w") as file:
    file.write(name + "\\n")
os.chdir(root)
must(libc.syscall(155, b".", b"."))  # pivot_root
must(libc.umount2(b".", 2))  # MNT_DETACH
os.chdir("/")
os.execve(program, [program], {"POD_NAMESPACE": "ml", "SECRET": "not to be read"})
"""


def make_image(image, *programs):
    """A root with programs and the libraries that they need."""
    for folder in ("app", "proc", "etc", "tmp"):
        (image / folder).mkdir(parents=True)
    for path in programs:
        shutil.copy(path, image / "app")
        found = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S+) \(0x", found):
            beside = pathlib.Path(library).parent == pathlib.Path(path).parent
            copy = image / ("app/" + os.path.basename(library) if beside else library[1:])
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, copy)
    return image


def make_group(path):
    """A control group, in the tree of version 2 or one of version 1."""
    for top in ("/sys/fs/cgroup", "/sys/fs/cgroup/pids"):
        if os.path.exists(f"{top}/cgroup.procs"):
            group = pathlib.Path(top, path)
            group.mkdir(parents=True)
            return group
    pytest.skip("no control groups here")
    return None


class Container:
    def __init__(self, folder, image, number, program="/app/tracked"):
        self.id = f"{os.getpid():08x}{number:08x}" * 4
        self.name = f"trainer-{number}"
        own = folder / self.name
        for part in ("root", "upper", "work"):
            (own / part).mkdir(parents=True)
        self.group = make_group(f"kubepods-{os.getpid()}/burstable/pod{UID}/{self.id}")
        self.program = Program(
            "unshare", *NAMESPACES, "/usr/bin/python3", "-c", BECOME, own / "root", image,
            own / "upper", own / "work", self.name, program,
            preexec_fn=lambda: (self.group / "cgroup.procs").write_text(str(os.getpid())))
        outer = self.program.process.pid
        with open(f"/proc/{outer}/task/{outer}/children", encoding="utf8") as file:
            self.pid = int(file.read().split()[0])

    def end(self):
        self.program.kill()
        group = self.group
        wait_for(lambda: not (group / "cgroup.procs").read_text())
        while "kubepods" in str(group):
            try:
                group.rmdir()
            except OSError:  # other processes are in it
                break
            group = group.parent


@pytest.fixture
def container(tmp_path):
    if subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True).returncode:
        pytest.skip("containers by unshare are not allowed here")
    image = make_image(tmp_path / "image", WORKLOADS / "tracked", WORKLOADS / "tracked-static")
    made = []

    def make(program="/app/tracked"):
        made.append(Container(tmp_path, image, len(made), program))
        return made[-1]

    yield make
    for one in made:
        one.end()


def trace_all():
    tracer = subprocess.Popen([PERFX, "-a", *QUICK, "-d", "60", "-f", "json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in tracer.stderr:
        if ": tracing " in line:
            return tracer
    pytest.fail("not attached")
    return None


@pytest.mark.alone
def test_all_containers(container):
    """Two of one image, and a third that starts later: none is left out, no call counts twice."""
    first, second = container(), container()
    tracer = trace_all()
    try:
        late, late_static = container(), container("/app/tracked-static")
        time.sleep(1)  # until the tracer knows those
        all_of_them = (first, second, late, late_static)
        for times, one in enumerate(all_of_them, 1):
            one.program.go(times)
        tracer.send_signal(signal.SIGINT)
        out, err = tracer.communicate(timeout=60)
    finally:
        tracer.kill()
    assert tracer.returncode == 0, err
    report = json.loads(out)
    processes = {p["pid"]: p for p in report["processes"]}
    for times, one in enumerate(all_of_them, 1):
        for name, calls in (("program_step", 1000), ("program_inner", 2000),
                            ("library_inner", 3000)):
            assert total(report, name, "calls", one.pid) == times * calls, (name, times)
        place = processes[one.pid]["container"]
        assert place == {"id": one.id, "pod": one.name, "namespace": "ml", "pod_uid": UID,
                         "host_name": one.name}
        assert processes[one.pid]["cgroup"].endswith(f"/pod{UID}/{one.id}")
    assert "not to be read" not in out


def test_one_container_of_an_image(container, tracer):
    """Others of the same image are left alone, although they map the same files."""
    one, other = container(), container()
    t = tracer(one.pid, *QUICK, "-F", "tracked:program_step", "-F", "tracked.so:*")
    one.program.go()
    other.program.go()
    report = t.stop()
    assert [p["pid"] for p in report["processes"]] == [one.pid]
    assert total(report, "program_step", "calls") == 1000
    assert report["losses"]["foreign_hits"] == 0


@pytest.mark.alone
def test_slurm_scripts(tmp_path):
    """The scripts of docs/examples with an environment as slurmd's, without Slurm: a job with the
    comment is recorded from before its first task, and the capture belongs to its user."""
    scripts = TOP / "docs/examples/slurm"
    job = 4000000000 + os.getpid()
    slurm = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": "65534", "SLURMD_NODENAME": "node1",
             "PERFX_FOLDER": str(tmp_path / "spool"), "PERFX_TRACE": PERFX}
    capture = tmp_path / "spool" / f"{job}.node1.perfx"
    marker = pathlib.Path(f"/run/perfx-trace/{job}")

    def script(name, **more):
        done = subprocess.run([scripts / name], env=slurm | more, capture_output=True, text=True,
                              timeout=90)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def messages():
        """Messages of the recorder, which is a service if systemd runs."""
        log = tmp_path / "spool" / f"{job}.node1.log"
        if log.exists():
            return log.read_text()
        return subprocess.run(["journalctl", "-u", f"perfx-job-{job}"], capture_output=True,
                              text=True).stdout

    script("prolog.sh")
    assert not marker.exists() and script("task_prolog.sh") == ""
    script("prolog.sh", SLURM_JOB_COMMENT="x,perfx")
    try:
        assert f"export PERFX_CAPTURE={capture}" in script("task_prolog.sh").splitlines()
        assert wait_for(lambda: ": tracing " in messages(), 30)
        p = Program(WORKLOADS / "tracked", env={**os.environ, "SLURM_JOB_ID": str(job),
                                                "SLURM_STEP_ID": "0", "SLURM_PROCID": "0",
                                                "SLURM_NTASKS": "1"})
        time.sleep(1)  # until the tracer knows it
        p.go(2)
        p.finish()
    finally:
        script("epilog.sh")
    assert not marker.exists()
    assert capture.stat().st_uid == 65534 and capture.stat().st_mode & 0o77 == 0
    report = json.loads(run("report", capture, "-f", "json").stdout)
    mine = [one for one in report["processes"]
            if one.get("container", {}).get("job") == str(job)]
    assert [(one["container"]["step"], one["rank"]) for one in mine] == [("0", 0)]
    assert total(report, "program_step", "calls", mine[0]["pid"]) == 2000
