# SPDX-License-Identifier: BSD-2-Clause
"""The packages in fresh systems."""
import json
import pathlib
import re
import shutil
import subprocess

import pytest
from systems import BUILD, GIVEN, TOP, System, fresh

SYSTEMS = list(dict.fromkeys(["bookworm", "trixie", "noble", "fedora", *GIVEN]))
# All of glibc that the tarball's program needs. A system of these alone has no shell even.
GLIBC = ["ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6"]


@pytest.fixture
def bookworm():
    with fresh("bookworm") as system:
        yield system


@pytest.fixture(params=SYSTEMS)
def system(request):
    with fresh(request.param) as made:
        yield made


def built(pattern):
    """The package of the current version."""
    version = re.search(r"^VERSION := (.*)", (TOP / "Makefile").read_text(), re.M)[1]
    return BUILD / pattern.format(version)


def unpack(system, folder):
    """Unpacks the tarball there; returns the name of its top folder."""
    tarball = built("perfx-trace-{}-x86_64.tar.gz")
    system.path(folder).mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xzf", tarball, "-C", system.path(folder)], check=True)
    return f"{folder}/{tarball.name.removesuffix('.tar.gz')}"


def total(system, report, function):
    """Calls of a function in all processes."""
    processes = json.loads(system.path(report).read_text())["processes"]
    return sum(f["calls"] for p in processes for f in p["functions"] if f["name"] == function)


def check_tracing(system, perfx):
    """The program prints its version, and traces a running process and one that it starts."""
    assert re.fullmatch(r"perfx-trace [\d.]+\n", system.run(perfx, "--version"))
    assert "ok      privilege to load BPF programs" in system.run(perfx, "doctor")
    with system.calls() as pid:
        system.run(perfx, "-p", str(pid), "-d", "2s", "-F", "calls:*", "-o", "/report.json")
        assert total(system, "/report.json", "leaf") > 0
        text = system.run(perfx, "-p", str(pid), "-d", "1s", "-F", "calls:*")
        assert "leaf" in text and "How it was measured" in text
    system.run(perfx, "run", "-F", "calls:*", "-o", "/report.json", "--", "/calls", stdin="go\n")
    assert [total(system, "/report.json", f) for f in ("outer", "middle", "leaf")] == [1000, 2000, 21000]
    system.path("/report.json").unlink()


def check_hooks(system, perfx):
    """Libraries for started programs are where the programs find them."""
    out = system.run(perfx, "run", "-o", "/report.json", "--", "/bin/sh", "-c",
                     "echo hook $NVTX_INJECTION64_PATH")
    [library] = re.findall(r"^hook (/\S+/lib/perfx/libperfx-nvtx.so)$", out, re.M)
    assert system.path(library).is_file()
    assert system.path(library).parent.joinpath("python/sitecustomize.py").is_file()
    system.path("/report.json").unlink()


def check_gpu_agent(system, perfx):
    """The driver loads the installed library into a program that `run` starts; perfx-trace injects its
    own copy into a running one. CUDA's libraries are stubs."""
    shutil.copytree(BUILD / "workloads/gpu", system.path("/gpu"))
    shutil.copy(BUILD / "workloads/gpu_agent", system.root)
    options = ("--gpu", "1", "--no-calibrate", "-F", "gpu_agent:*", "-o", "/report.json")
    system.run(perfx, "run", *options, "--", "/gpu_agent", "records")
    assert kernels(system) == {"gemm": 3, "reduce": 3}
    program = system.start("/gpu_agent", "attached", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline().startswith("ready ")
        program.stdin.write("go\n")
        program.stdin.flush()
        system.run(perfx, "-p", str(program.pid), "-d", "3s", *options)
        assert kernels(system) == {"gemm": 5, "reduce": 5}
        assert program.communicate(timeout=30)[0].startswith("done\n") and program.returncode == 0
    finally:
        program.kill()
    for name in ("/report.json", "/gpu_agent"):
        system.path(name).unlink()
    shutil.rmtree(system.path("/gpu"))


def kernels(system):
    """Calls by name, of the one process; the agent has been loaded and has ended."""
    process, = json.loads(system.path("/report.json").read_text())["processes"]
    assert process["gpu"]["agent"]["state"] == "stopped"
    return {row["name"]: row["calls"] for row in process["gpu"]["kernels"] if row["name"] in ("gemm", "reduce")}


def test_deb_is_installed_runs_and_is_purged(bookworm):
    deb = shutil.copy(built("perfx-trace_{}_amd64.deb"), bookworm.path("/tmp"))
    bookworm.run("apt-get", "update")
    bookworm.run("apt-get", "install", "-y", "--no-install-recommends", "python3")
    before = bookworm.files()
    bookworm.run("apt-get", "install", "-y", "--no-install-recommends", f"/tmp/{pathlib.Path(deb).name}")
    assert bookworm.run("dpkg", "--verify", "perfx-trace") == ""
    check_tracing(bookworm, "/usr/bin/perfx-trace")
    check_hooks(bookworm, "perfx-trace")
    check_gpu_agent(bookworm, "perfx-trace")
    assert ".Nm perfx-trace" in bookworm.run("zcat", "/usr/share/man/man1/perfx-trace.1.gz")
    # by root, so Python leaves what it compiles beside the modules
    bookworm.run("perfx-trace", "run", "--python-level", "1", "-o", "/report.json", "--", "python3", "-c",
                 "import perfx\n\ndef work():\n    assert perfx.available\n\nwork()")
    assert total(bookworm, "/report.json", "__main__.work") == 1
    bookworm.path("/report.json").unlink()
    assert bookworm.path("/usr/lib/python3/dist-packages/perfx/__pycache__").is_dir()
    bookworm.run("apt-get", "purge", "-y", "--auto-remove", "perfx-trace")
    after = bookworm.files()
    assert {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)} == set()


def test_tarball_runs_where_it_is_unpacked(system):
    perfx = unpack(system, "/opt") + "/bin/perfx-trace"
    check_tracing(system, perfx)
    check_hooks(system, perfx)
    check_gpu_agent(system, perfx)


def test_tarball_installs_and_goes_by_its_readme(bookworm):
    before = bookworm.files()
    top = unpack(bookworm, "/tmp")
    commands = [line.strip().replace("sudo ", "") for line in
                bookworm.path(f"{top}/README").read_text().splitlines() if "/usr/local" in line]
    assert len(commands) == 3
    bookworm.run("sh", "-ec", f"cd {top}; {commands[0]}")
    check_tracing(bookworm, "perfx-trace")
    bookworm.run("sh", "-ec", f"cd {top}; {commands[1]}; {commands[2]}; ldconfig")
    left = {name for name, content in bookworm.files().items() if content and before.get(name) != content}
    assert left == set()


def test_tarball_needs_glibc_and_nothing_else(bookworm, tmp_path):
    """Symbols of glibc 2.34 at most, as in Ubuntu 22.04 and RHEL 9; it also traces in a root without
    other libraries."""
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    (root / "lib64").symlink_to("lib")
    for name in GLIBC:
        shutil.copy(bookworm.path("/lib/x86_64-linux-gnu") / name, root / "lib")
    system = System(root)
    perfx = unpack(system, "/opt") + "/bin/perfx-trace"
    header = subprocess.run(["objdump", "-p", system.path(perfx)], capture_output=True, text=True,
                            check=True).stdout
    assert set(re.findall(r"NEEDED +(\S+)", header)) <= set(GLIBC)
    assert max(tuple(map(int, v.split("."))) for v in re.findall(r" GLIBC_([\d.]+)\n", header)) <= (2, 34)
    check_tracing(system, perfx)
