# SPDX-License-Identifier: BSD-2-Clause
"""pip install ./python, without a network."""
import os
import re
import subprocess
import sys
import zipfile

import perfx
import pytest
from project import TOP


def backend(code, folder):
    subprocess.run([sys.executable, "-B", "-c", "import build_wheel\n" + code], cwd=TOP / "python",
                   env={**os.environ, "OUT": str(folder)}, check=True, capture_output=True)


def test_version_is_the_projects():
    assert f"\nVERSION := {perfx.__version__}\n" in (TOP / "Makefile").read_text()


def test_pip_install(tmp_path):
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True,
                      check=False).returncode:
        pytest.skip("no pip here")
    subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-cache-dir", "--quiet",
                    "--target", str(tmp_path), str(TOP / "python")], check=True, cwd=tmp_path)
    run = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", "import perfx\nwith perfx.scope('x'): perfx.mark('y')\n"
         "print(perfx.__file__, perfx.available)"], capture_output=True, text=True, check=True,
        cwd="/", env={"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]})
    assert run.stdout == f"{tmp_path}/perfx/__init__.py True\n"
    assert (tmp_path / "perfx" / "libperfx.so.1").is_file()


def test_wheel_lists_what_it_holds(tmp_path):
    backend("import os; build_wheel.build_wheel(os.environ['OUT'])", tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    assert re.fullmatch(r"perfx-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = archive.read(next(n for n in names if n.endswith("RECORD"))).decode()
    assert sorted(line.split(",")[0] for line in record.splitlines()) == sorted(names)
    modules = {f"perfx/{path.name}" for path in (TOP / "python" / "perfx").glob("*.py")}
    assert modules < set(names)


def test_without_compiler_the_wheel_is_pure(tmp_path):
    backend("import os; os.environ['CC'] = 'no-such-compiler'; "
            "build_wheel.build_wheel(os.environ['OUT'])", tmp_path)
    assert [path.name.split("-", 2)[2] for path in tmp_path.iterdir()] == ["py3-none-any.whl"]


def test_source_archive_builds_the_same(tmp_path):
    backend("import os; build_wheel.build_sdist(os.environ['OUT'])", tmp_path)
    [archive] = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xf", str(archive), "-C", str(tmp_path)], check=True)
    [source] = tmp_path.glob("perfx-*/")
    subprocess.run([sys.executable, "-B", "-c", "import build_wheel; build_wheel.build_wheel('..')"],
                   cwd=source, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as built:
        assert "perfx/libperfx.so.1" in built.namelist()
