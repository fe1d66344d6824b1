# SPDX-License-Identifier: BSD-2-Clause
"""The CUPTI of PyTorch's wheel has the functions that the agent calls. Without a GPU, 13.2 crashes at
the first call, so the agent makes none, says why, and leaves the program alone."""
import json
import os
import re
import subprocess

import pytest
from conftest import PERFX, TOP, WORKLOADS
from test_ml import torch_python  # noqa: F401

SCRIPT = """
import ctypes, glob, sys, time, nvidia
library, = glob.glob(nvidia.__path__[0] + "/*/lib/libcupti.so.*")
print(library, flush=True)
cuda = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
cuda.cuInit(0)
print("ready", flush=True)
end = time.monotonic() + 3
rounds = {sum(range(10000)) for _ in iter(lambda: time.monotonic() < end, False)}
print("did", rounds, flush=True)
"""
OPTIONS = ["--gpu", "1", "--no-calibrate", "--memory", "off", "--sample", "off", "-f", "json"]


@pytest.mark.parametrize("how", ["run", "attach"])
def test_cupti_of_the_wheel(how, torch_python, tmp_path):  # noqa: F811
    program = [torch_python, "-c", SCRIPT, WORKLOADS / "gpu/libcuda.so.1"]
    environment = {**os.environ, "STUB_NO_DEVICE": "1"}
    out = tmp_path / "report.json"
    if how == "run":
        run = subprocess.run([PERFX, "run", "--as-root", *OPTIONS, "-o", out, "--", *program], capture_output=True,
                             text=True, timeout=60, check=True, env=environment)
        said, did = run.stderr, run.stdout
    else:
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment) as process:
            did = process.stdout.readline()
            assert process.stdout.readline() == "ready\n"
            said = subprocess.run([PERFX, "-p", str(process.pid), *OPTIONS, "-d", "1", "-o", out], capture_output=True,
                                  text=True, timeout=60, check=True).stderr
            did += process.stdout.read()
        assert process.returncode == 0
    assert did.endswith("did {49995000}\n")
    (agent,) = [p["gpu"]["agent"] for p in json.loads(out.read_text())["processes"]]
    assert agent["state"] == "refused" and "device" in agent["what"] and agent["what"] in said
    has = subprocess.run(["nm", "-D", "--defined-only", did.split()[0]], capture_output=True, text=True, check=True)
    needed = re.findall(r'"(cupti\w+)", false', (TOP / "user/agent/cupti.c").read_text())
    assert len(needed) > 10 and set(needed) <= {re.sub("@.*", "", line.split()[-1]) for line in has.stdout.splitlines()}
