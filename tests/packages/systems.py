# SPDX-License-Identifier: BSD-2-Clause
"""Fresh systems: folders filled by debootstrap and entered by chroot, on this kernel.

ROOTS='noble=/srv/noble fedora=/srv/fedora' names folders with other systems, such as the root of a
container image. They are copied, never written to.
"""
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = TOP / os.environ.get("BUILD", "build")
GIVEN = dict(root.split("=", 1) for root in os.environ.get("ROOTS", "").split())
DEBIAN = ["bookworm", "trixie", "sid"]
# Mounts vanish with the process, which has a mount namespace of its own. Programs in the system may unshare mounts only if
# its root is a mount, so the root is mounted on itself. /sys includes tracefs and bpf if this machine has them mounted.
ENTER = ('mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && '
         'mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"')
# What apt and dpkg keep of every package that ever was there.
BOOKKEEPING = re.compile(r"/(tmp|var/(cache|log)|var/lib/(apt|dpkg))(/|$)")


class System:
    """A folder with a system, and the workload calls."""

    def __init__(self, root):
        self.root = root
        for folder in ("proc", "sys", "dev", "tmp"):
            (root / folder).mkdir(exist_ok=True)
        shutil.copy(BUILD / "workloads/calls", root)

    def path(self, name):
        return self.root / name.lstrip("/")

    def start(self, *argv, **popen):
        """Starts a program in the system. After its exec, this Popen's process id is the program's."""
        return subprocess.Popen(
            ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", ENTER, self.root, *argv],
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}, text=True, **popen)

    def run(self, *argv, stdin=""):
        """Runs a command that must succeed; returns its stdout."""
        process = self.start(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        out, err = process.communicate(stdin, timeout=300)
        assert process.returncode == 0, f"{argv}: {out}{err}"
        return out

    @contextlib.contextmanager
    def calls(self):
        """Runs the workload, one scenario after the other; yields its process id."""
        with subprocess.Popen(["yes", "go"], stdout=subprocess.PIPE) as source:
            program = self.start("/calls", stdin=source.stdout, stdout=subprocess.DEVNULL)
            source.stdout.close()
            try:
                while not os.readlink(f"/proc/{program.pid}/exe").endswith("/calls"):
                    assert program.poll() is None
                    time.sleep(0.02)
                yield program.pid
            finally:
                program.kill()
                program.wait()
                source.kill()

    def files(self):
        """The system's files with their contents, and links with their targets."""
        found = {}
        for folder, folders, files in os.walk(self.root):
            for path in (pathlib.Path(folder, name) for name in folders + files):
                name = f"/{path.relative_to(self.root)}"
                if BOOKKEEPING.match(name):
                    continue
                if path.is_symlink():
                    found[name] = os.readlink(path)
                else:
                    found[name] = hashlib.sha256(path.read_bytes()).digest() if path.is_file() else ""
        return found


def archive(release):
    """A Debian system as a tar file, made once."""
    made = BUILD / "roots" / f"{release}.tar"
    if made.exists():
        return made
    made.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as root:
        run = subprocess.run(["debootstrap", "--variant=minbase", release, root], capture_output=True,
                             text=True, check=False)
        if run.returncode:
            pytest.skip(f"debootstrap {release}: {run.stdout.splitlines()[-1]}")
        os.chmod(root, 0o755)  # the system's "/", for users without privilege, too
        part = made.with_suffix(".part")
        subprocess.run(["tar", "-C", root, "-cf", part, "."], check=True)
        part.rename(made)
    return made


@contextlib.contextmanager
def fresh(name):
    """A writable copy of a system."""
    with tempfile.TemporaryDirectory(dir=BUILD) as place:
        root = pathlib.Path(place, "root")
        if name in GIVEN:
            subprocess.run(["cp", "-a", "--one-file-system", GIVEN[name], root], check=True)
        elif name in DEBIAN:
            root.mkdir()
            subprocess.run(["tar", "-C", root, "-xpf", archive(name)], check=True)
        else:
            pytest.skip(f"no folder with a system of {name}: ROOTS='{name}=/path' names one")
        yield System(root)
