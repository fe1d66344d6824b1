# SPDX-License-Identifier: BSD-2-Clause
"""Builds the packages for pip: zip files of modules, programs and metadata.

perfx (PEP 517, `pip install ./python`) has the annotations and libperfx, which is compiled from the
project's sources beside this folder, as by the Makefile. Without a compiler the package does not
contain it and uses an installed one. perfx-trace (build_tool_wheel, for `make wheel`) has the tracer,
too.
"""
import base64
import hashlib
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = "libperfx.so.1"
LIB_FLAGS = ("-std=c11 -O2 -fPIC -fvisibility=hidden -shared -nostdlib -s "
             f"-Wl,-soname,{LIBRARY}").split()
VERSION = re.search(r'^__version__ = "(.*)"', (HERE / "perfx" / "__init__.py").read_text(), re.M)[1]
PLATFORM = "manylinux_2_34_x86_64"  # the glibc of Debian 12's libraries that perfx-trace needs
EXTRAS = """License: BSD-2-Clause
Requires-Python: >=3.8
Provides-Extra: rich
Requires-Dist: rich; extra == "rich"
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
"""
METADATA = f"""Metadata-Version: 2.1
Name: perfx
Version: {VERSION}
Summary: Annotations for perfx-trace: ranges, steps, counters; and profiling of a call
{EXTRAS}"""
TOOL_METADATA = f"""Metadata-Version: 2.1
Name: perfx-trace
Version: {VERSION}
Summary: Shows why a running program is slow: an eBPF tracer for PyTorch, JAX and other Linux programs
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: System :: Monitoring
Description-Content-Type: text/markdown
{EXTRAS}
"""


def native_sources():
    """perfx.c and the folder of perfx.h: in the project's tree, or in the archive of build_sdist."""
    for source, include in (("../user/libperfx", "../include"), ("native", "native")):
        if (HERE / source / "perfx.c").is_file():
            return HERE / source / "perfx.c", HERE / include
    return None


def compile_library(folder):
    """The library's bytes, or None if it cannot be built here."""
    sources = native_sources()
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not sources or not shutil.which(compiler[0]):
        print("perfx: no C compiler: the package comes without libperfx, make install puts it in place")
        return None
    out = pathlib.Path(folder) / LIBRARY
    subprocess.run([*compiler, *LIB_FLAGS, f"-I{sources[1]}", "-o", str(out), str(sources[0])],
                   check=True)
    return out.read_bytes()


def modules(package="perfx"):
    return sorted((HERE / package).glob("*.py"))


class Wheel:
    """The archive, with the list of its contents for pip."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)  # pylint: disable=consider-using-with
        self.record = []

    def add(self, name, content, mode=0o644):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # a fixed date for reproducible bytes
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")

    def close(self, info, metadata, tag):
        pure = "true" if tag.endswith("-any") else "false"
        self.add(f"{info}/METADATA", metadata)
        self.add(f"{info}/WHEEL", ("Wheel-Version: 1.0\nGenerator: perfx\n"
                                   f"Root-Is-Purelib: {pure}\nTag: {tag}\n").encode())
        self.record.append(f"{info}/RECORD,,")
        self.add(f"{info}/RECORD", "\n".join([*self.record, ""]).encode())
        self.zip.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    del config_settings, metadata_directory
    with tempfile.TemporaryDirectory() as scratch:
        library = compile_library(scratch)
    platform = re.sub("[-.]", "_", sysconfig.get_platform()) if library else "any"
    tag = f"py3-none-{platform}"
    name = f"perfx-{VERSION}-{tag}.whl"
    info = f"perfx-{VERSION}.dist-info"
    wheel = Wheel(pathlib.Path(wheel_directory) / name)
    for path in modules():
        wheel.add(f"perfx/{path.name}", path.read_bytes())
    if library:
        wheel.add(f"perfx/{LIBRARY}", library, 0o755)
    wheel.close(info, METADATA.encode(), tag)
    return name


def build_tool_wheel(wheel_directory, prefix, licenses):
    """The tracer, as `make install` has put it into the folder `prefix`: pip installs its bin, lib/perfx and share below
    the prefix of the environment, where perfx-trace finds its libraries and man its page."""
    prefix = pathlib.Path(prefix)
    tag = f"py3-none-{PLATFORM}"
    name = f"perfx_trace-{VERSION}-{tag}.whl"
    info, data = (f"perfx_trace-{VERSION}.{kind}" for kind in ("dist-info", "data"))
    wheel = Wheel(pathlib.Path(wheel_directory) / name)
    for path in [*modules(), *modules("perfx_trace")]:
        wheel.add(f"{path.parent.name}/{path.name}", path.read_bytes())
    wheel.add(f"perfx/{LIBRARY}", (prefix / "lib" / LIBRARY).read_bytes(), 0o755)
    wheel.add(f"{data}/scripts/perfx-trace", (prefix / "bin/perfx-trace").read_bytes(), 0o755)
    for path in sorted(path for folder in ("lib/perfx", "share") for path in (prefix / folder).rglob("*")):
        if path.is_file():
            wheel.add(f"{data}/data/{path.relative_to(prefix)}", path.read_bytes())
    for path in sorted(pathlib.Path(licenses).iterdir()):
        wheel.add(f"{info}/licenses/{path.name}", path.read_bytes())
    wheel.close(info, TOOL_METADATA.encode() + (HERE.parent / "README.md").read_bytes(), tag)
    return name


def build_sdist(sdist_directory, config_settings=None):
    del config_settings
    top = f"perfx-{VERSION}"
    source, include = native_sources()
    files = {f"perfx/{path.name}": path.read_bytes() for path in modules()}
    files.update({name: (HERE / name).read_bytes() for name in ("pyproject.toml", "build_wheel.py")})
    files["native/perfx.c"] = source.read_bytes()
    files["native/perfx.h"] = (include / "perfx.h").read_bytes()
    files["PKG-INFO"] = METADATA.encode()
    with tarfile.open(pathlib.Path(sdist_directory) / f"{top}.tar.gz", "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return f"{top}.tar.gz"
