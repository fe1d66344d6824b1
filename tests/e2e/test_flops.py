# SPDX-License-Identifier: BSD-2-Clause
"""Floating-point operations and bytes of BLAS calls, by known answers."""
import json
import os
import pathlib
import subprocess

import pytest
from conftest import LINKS, WORKLOADS, run
from flops import check_known, check_shapes, check_steps, check_sums, costs_by_name
from trainers import has_torch

QUICK = ["--no-calibrate", "--memory", "off"]
REFERENCE_BLAS = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3"


def traced(program, tracer, *argv, options=(), times=1, **popen):
    """The program's expectations, and the report."""
    p = program(*argv, **popen)
    t = tracer(p.pid, *QUICK, *options)
    p.go(times)
    return p.finish(), t.stop()


@pytest.mark.parametrize("how", ["auto", "exit"])
@pytest.mark.parametrize("link", LINKS)
def test_blas(how, link, program, tracer, links):
    """Products of matrices and vectors of four types, from C and Fortran, with unusual shapes."""
    if link not in links:
        pytest.skip(f"this kernel has no {link} links")
    p = program(WORKLOADS / "blas_calls")
    t = tracer(p.pid, *QUICK, "--return", how, link=link)
    p.go(2)
    expected = p.finish()
    assert not check_known(t.stop(), expected)
    assert len({name for name, _ in expected}) == 42


def test_reference_blas(program, tracer):
    """Its C interface calls its Fortran one: nested calls do not count twice."""
    if not pathlib.Path(REFERENCE_BLAS).exists():
        pytest.skip(f"no {REFERENCE_BLAS} (Debian: libblas3)")
    expected, report = traced(program, tracer, WORKLOADS / "blas_calls",
                              env={"LD_PRELOAD": REFERENCE_BLAS})
    inner = {}
    for (name, key), value in list(expected.items()):
        if name.startswith("cblas_") and key == "calls":
            inner[name.removeprefix("cblas_") + "_"] = value
    for name, value in inner.items():
        expected[name, "calls"] = expected.get((name, "calls"), 0) + value
        expected[name, "silenced"] = value
    assert not check_known(report, expected)


@pytest.mark.parametrize("ring", ["4K", "8M"])
def test_threads(ring, program, tracer):
    """With the reader stopped and the ring full, calls without a record are in the overflow sums."""
    p = program(WORKLOADS / "blas_calls", "8", "500")
    t = tracer(p.pid, *QUICK, "--ring-size", ring)
    with t.stopped():
        p.go()
    p.go()
    report = t.stop()
    assert not check_known(report, p.finish())
    assert (report["losses"]["ring_drops"] > 3000) == (ring == "4K")


@pytest.mark.parametrize("how", ["auto", "exit"])
def test_refused_calls(how, program, tracer):
    """A call left by longjmp has unknown FLOPs and does not affect others; one with a negative
    dimension is unreadable."""
    expected, report = traced(program, tracer, WORKLOADS / "blas_calls", "failing", times=3,
                              options=["--return", how])
    assert not check_known(report, expected)
    assert expected["dgemm_", "unwound"] == expected["sgemm_", "unread"] == 3


def test_only_what_is_named(program, tracer):
    """With -F only the named functions count; a cblas function is not an operator and owns its nested
    calls."""
    expected, report = traced(program, tracer, WORKLOADS / "blas_calls", options=["-F", "cblas_?gemm"])
    names = {"cblas_sgemm", "cblas_dgemm", "cblas_cgemm", "cblas_zgemm"}
    check_known(report, {key: value for key, value in expected.items()
                         if key[0] in names})
    assert set(costs_by_name(report)) == names


@pytest.mark.parametrize("how", ["auto", "exit"])
def test_cuda(how, program, tracer):
    """cuBLAS, cuBLASLt and NCCL with their real names and calling convention, in empty libraries;
    layouts made before tracing have no known cost."""
    expected, report = traced(program, tracer, WORKLOADS / "cuda_calls", times=2,
                              options=["--return", how])
    bus = expected["*", "bus"]
    others = check_known(report, expected)
    assert not any(row["flops"] or row["counted"] for row in others.values())
    compute = report["processes"][0]["compute"]
    assert compute["sources"] == {"cuda": compute["flops"], "nccl": 0}
    assert compute["bus_bytes"] == bus
    for dtype, flops in {"f16": 2 * (120 + 120 + 840 + 2366), "f8": 2 * 8192, "integer": 2 * 120,
                         "bf16": 2 * (120 + 840 + 120 + 840)}.items():
        assert compute["dtypes"][dtype] == flops


RULES = """# what the program's functions do
hints:kernel dtype=f32; let c=1+3*eq(u32(arg5),1); let m=i32(arg2); let n=i32(arg3);
  let k=i32(arg4); let groups=stack1;
  flops=2*c*m*n*k*(*i32(groups)+*i32(groups+4)); bytes=4*(m*k+k*n+m*n)
hints:solve flops=1; exit; flops=2*result
hints:copy moves; bytes=arg3
"""


@pytest.mark.parametrize("how", ["auto", "exit"])
def test_hints_and_rules(how, program, tracer, tmp_path):
    """FLOPs stated by perfx_flops, and by a rules file."""
    file = tmp_path / "rules"
    file.write_text(RULES)
    expected, report = traced(program, tracer, WORKLOADS / "hints", times=2,
                              options=["--return", how, "--flops-rules", file])
    others = check_known(report, expected)
    assert set(others) == {"copy"}
    compute = report["processes"][0]["compute"]
    assert set(compute["sources"]) == {"perfx", "symbol"}
    epoch = next(f for f in report["processes"][0]["functions"] if f["name"] == "epoch")
    assert epoch["flops"] == 2 * (5000000007 + 10000 + 45)


def test_switched_off(program, tracer):
    """Calls are counted as usual, without FLOPs."""
    _, report = traced(program, tracer, WORKLOADS / "hints", options=["--flops", "off"])
    [process] = report["processes"]
    assert "compute" not in process
    assert not any("flops" in f or "figures" in f for f in process["functions"])


def test_switched_on(program, tracer):
    """With -F, --flops on adds default functions with known FLOPs."""
    expected, report = traced(program, tracer, WORKLOADS / "blas_calls",
                              options=["-F", "blas_calls:xerbla_", "--flops", "on"])
    assert not check_known(report, expected)


@pytest.mark.parametrize("rule, word", [
    ("hints:kernel flops=", "1"), ("hints:kernel", "1"), ("hints:kernel flops=arg7", "1"),
    ("\nhints:solve bytes=3", "2"), ("hints:kernel flops=2*x", "1"),
])
def test_bad_rules(rule, word, tmp_path):
    """One line with file, line and error. Nothing is traced."""
    file = tmp_path / "rules"
    file.write_text(rule + "\n")
    done = run("-p", os.getpid(), "-d", "1", "--flops-rules", file)
    assert done.returncode == 2
    assert f"{file}:{word}:" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("ring", ["4K", "8M"])
def test_ranks_known_late(ring, program, tracer):
    """A communicator made before tracing: bytes over the bus if the program has queried its ranks
    meanwhile; none for all collectives together."""
    p = program(WORKLOADS / "cuda_calls", "early")
    t = tracer(p.pid, *QUICK, "--ring-size", ring)
    with t.stopped():
        p.go(60)
    report = t.stop()
    expected = p.finish()
    check_known(report, dict(expected))
    process = report["processes"][0]
    rows = {f["name"]: f for f in process["functions"]}
    assert "bus_bytes" not in process["compute"] and "bus_bytes" not in rows["ncclAllGather"]
    assert rows["ncclAllGather"]["moved_bytes"] == 60 * 3000
    assert rows["ncclAllReduce"]["bus_bytes"] == 60 * (5333 + 2666)
    assert rows["ncclReduce"]["bus_bytes"] == 60 * 8000
    assert (report["losses"]["ring_drops"] > 500) == (ring == "4K")


def test_trainer(tmp_path):
    """A whole training, compared with the trainer's own count; also by each function that
    multiplies."""
    file = tmp_path / "report.json"
    done = run("run", *QUICK, "-o", file, "--", WORKLOADS / "trainer", "--epochs", "1", "--quiet",
               "--batch", "32", "--hidden", "64", timeout=300)
    assert done.returncode == 0, done.stderr
    own = dict(line.split("=") for line in done.stdout.splitlines())
    report = json.loads(file.read_text())
    check_sums(report)
    [process] = report["processes"]
    rows = {f["name"]: f for f in process["functions"]}
    assert process["compute"]["flops"] == int(own["flops"])
    assert process["compute"]["attributed"] == 1
    assert rows["cblas_sgemm"]["own_flops"] == int(own["flops"])
    assert rows["cblas_sgemm"]["figures"]["counted"] == int(own["calls.cblas_sgemm"])
    # training steps of train_epoch; the rest is evaluation
    assert rows["train_epoch"]["flops"] == rows["train_step"]["flops"]
    assert rows["train_epoch"]["flops"] + rows["evaluate"]["flops"] == int(own["flops"])
    assert rows["linear_forward"]["flops"] + rows["linear_backward"]["flops"] == int(own["flops"])
    assert rows["backward"]["flops"] == rows["linear_backward"]["flops"]
    for name in ("train_step", "linear_forward", "linear_backward", "evaluate"):
        assert "own_flops" not in rows[name]
    assert "flops" not in rows["softmax_loss"]


# --- the distribution's PyTorch and NumPy ---

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def python():
    if not has_torch(PYTHON):
        pytest.skip(f"{PYTHON} has no torch (Debian: python3-torch)")
    return PYTHON


def test_torch_shapes(python):
    check_shapes(python, "shapes_torch.py")


@pytest.mark.some(1)
@pytest.mark.parametrize("model", ["transformer", "cnn", "mlp"])
def test_torch_models(model, python):
    check_steps(python, model)


def test_numpy():
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has no numpy (Debian: python3-numpy)")
    check_shapes(PYTHON, "shapes_numpy.py")
