# SPDX-License-Identifier: BSD-2-Clause
"""The wheel in fresh systems, as users without privilege install and call it."""
import re
import shutil
import ssl
import subprocess
import urllib.request

import pytest
from systems import BUILD, fresh
from test_packages import built, check_hooks, check_tracing, total

# How ada installs it, removes it, and its folder of programs. The second environment has no pip.
WHEEL = "/tmp/perfx_trace-*.whl"
WAYS = {
    "venv": (f"python3 -m venv env && env/bin/pip install -q --no-index {WHEEL}",
             "env/bin/pip uninstall -q -y perfx-trace", "env/bin"),
    "uv": ("python3 -m venv tools && tools/bin/pip install -q --no-index /tmp/uv-*.whl && tools/bin/uv -q venv uv-env && "
           f"tools/bin/uv -q --no-cache pip install --offline --python uv-env {WHEEL}",
           "tools/bin/uv -q pip uninstall --python uv-env perfx-trace", "uv-env/bin"),
    "user": (f"python3 -m pip install -q --no-index --user --break-system-packages --no-warn-script-location {WHEEL}",
             "python3 -m pip uninstall -q -y --break-system-packages perfx-trace", ".local/bin"),
}
PROFILE = """
import math, os, re, perfx
assert perfx.available
try:
    perfx.profile(math.sqrt, 2)
except perfx.ProfilingError as error:
    os.environ["PERFX_TRACE"], = re.findall("PERFX_TRACE='(.*?)'", str(error))
print(os.environ["PERFX_TRACE"], perfx.profile(math.sqrt, 2)[1]["sqrt"].call_count)
"""


@pytest.fixture(scope="module")
def uv_wheel():
    folder = BUILD / "roots/uv"
    if not list(folder.glob("uv-*.whl")):
        subprocess.run(["/usr/bin/python3", "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "uv"], check=True)
    return max(folder.glob("uv-*.whl"))


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def system(request, uv_wheel):
    """With a user ada, who may use sudo."""
    with fresh(request.param) as made:
        made.run("apt-get", "update")
        made.run("apt-get", "install", "-y", "--no-install-recommends", "python3-venv", "python3-pip", "sudo", "libcap2-bin")
        made.run("useradd", "--create-home", "--shell", "/bin/bash", "ada")
        made.path("/etc/sudoers.d/ada").write_text("ada ALL=(ALL) NOPASSWD: ALL\n")
        for wheel in (uv_wheel, built("perfx_trace-{}-py3-none-manylinux_2_34_x86_64.whl")):
            shutil.copy(wheel, made.path("/tmp"))
        yield made


class Ada:
    """A shell of the user, with this folder in PATH."""

    def __init__(self, system, folder):
        self.system = system
        self.folder = f"/home/ada/{folder}"

    def start(self, command):
        return self.system.start("runuser", "-u", "ada", "--", "env", "HOME=/home/ada", f"PATH={self.folder}:/usr/bin:/bin",
                                 "bash", "-c", f"cd ~ && {command}", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)

    def ends(self, command, status=0):
        """Its output, and its messages."""
        process = self.start(command)
        out, err = process.communicate(timeout=120)
        assert process.returncode == status, f"{command}: {out}{err}"
        return out, err


@pytest.fixture(params=WAYS)
def ada(request, system):
    install, uninstall, folder = WAYS[request.param]
    shell = Ada(system, folder)
    before = system.files()
    shell.ends(install)
    yield shell
    shell.ends(uninstall)
    # uv leaves empty folders
    assert not [name for name, content in system.files().items() if content and "perfx" in name and name not in before]


def test_installed_by_a_user(ada):
    system, program = ada.system, ada.folder + "/perfx-trace"
    check_tracing(system, program)
    check_hooks(system, program)
    python = f"{ada.folder}/python3" if (system.path(ada.folder) / "python3").is_symlink() else "python3"
    assert ada.ends("perfx-trace --version") == ada.ends(f"{python} -m perfx_trace --version")
    prefix = system.path(ada.folder).parent
    assert ".Nm perfx-trace" in (prefix / "share/man/man1/perfx-trace.1").read_text()
    out, _ = ada.ends(f". {ada.folder}/../share/bash-completion/completions/perfx-trace && complete -p perfx-trace")
    assert out.endswith(" perfx-trace\n")

    # sudo does not search this folder; the message has a command that it understands
    with system.calls() as pid:
        ask = f"-p {pid} -d 1s -F 'calls:*' -o 'my report.json'"
        by_module = ada.ends(f"{python} -m perfx_trace {ask}", 77)[1]
        assert f"with sudo: sudo {program} -p {pid} " in by_module
        assert "command not found" in ada.ends(f"sudo perfx-trace {ask}", 1)[1]
        message = ada.ends(f"perfx-trace {ask}", 77)[1]
        by_sudo, = re.findall("with sudo: (.*)", message)
        assert by_sudo == f"sudo \"$(command -v perfx-trace)\" {ask}"
        ada.ends(by_sudo)
    report = system.path("/home/ada/my report.json")
    assert total(system, "/home/ada/my report.json", "leaf") > 0
    assert report.stat().st_uid == system.path("/home/ada").stat().st_uid
    system.path("/home/ada/profile.py").write_text(PROFILE)
    assert ada.ends(f"{python} profile.py")[0] == f"sudo -n {program} 1\n"

    ada.ends(re.findall("or once, .*: (sudo setcap .*)", message)[0])
    ada.ends("perfx-trace run -F 'calls:*' -o own.json -- /calls <<< go")
    assert total(system, "/home/ada/own.json", "leaf") == 21000
    with ada.start("yes go | /calls > /dev/null") as shell:
        try:
            ada.ends("until pidof calls; do sleep 0.02; done && perfx-trace -p calls -d 1s -F 'calls:*' -o own.json")
        finally:
            ada.ends("kill $(pidof calls)")
            shell.communicate(timeout=30)
    assert total(system, "/home/ada/own.json", "leaf") > 0


def test_serve_has_tls(system):
    """The tarball has the same program."""
    ada = Ada(system, "env/bin")
    ada.ends(WAYS["venv"][0])
    folder = system.path("/root")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem",
                    "-out", folder / "cert.pem"], check=True, capture_output=True)
    with system.calls() as pid:
        server = system.start(ada.folder + "/perfx-trace", "serve", "-p", str(pid), "-F", "calls:*", "--listen", "127.0.0.1:0",
                              "--tls-cert", "/root/cert.pem", "--tls-key", "/root/key.pem", stderr=subprocess.PIPE)
        try:
            port = next(filter(None, (re.search(r"ready: https://127.0.0.1:(\d+)/", line) for line in server.stderr)))[1]
            trusted = ssl.create_default_context(cafile=folder / "cert.pem")
            with urllib.request.urlopen(f"https://localhost:{port}/", timeout=30, context=trusted) as page:
                assert b"perfx-trace" in page.read()
            with pytest.raises(OSError):
                urllib.request.urlopen(f"https://localhost:{port}/", timeout=30)
        finally:
            server.terminate()
            server.communicate(timeout=60)
