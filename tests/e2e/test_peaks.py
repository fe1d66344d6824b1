# SPDX-License-Identifier: BSD-2-Clause
"""The user's values of the host's peaks are in the report, and nothing is measured."""
import json
import os
import subprocess

import pytest
from conftest import PERFX, WORKLOADS, run


def peaks_of(tmp_path, *options):
    file = tmp_path / "report.json"
    result = subprocess.run([PERFX, "run", "-o", str(file), "-F", "often:*", *options, "--",
                             str(WORKLOADS / "often"), "strsm_"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=60)
    assert "peak of this host" not in result.stderr, result.stderr
    return json.loads(file.read_text()).get("peaks", [])


def test_given_peaks_are_in_the_report(tmp_path):
    peaks = peaks_of(tmp_path, "--peak-flops", "f32:1.2T,f64:600G", "--peak-bandwidth", "25.6GB/s")
    threads = {p.pop("threads") for p in peaks}
    assert len(threads) == 1 and threads.pop() >= 1
    assert sorted(peaks, key=lambda p: p.get("dtype", "")) == [
        {"bytes_per_s": 25_600_000_000, "origin": "given"},
        {"dtype": "f32", "gflops_per_s": 1200.0, "origin": "given"},
        {"dtype": "f64", "gflops_per_s": 600.0, "origin": "given"},
    ]


def test_without_flops_there_are_no_peaks(tmp_path):
    assert peaks_of(tmp_path) == []


SCRIPT = """
set -e
mount -t tmpfs none /var/cache
run="{perfx} run --no-calibrate --memory off -F often:main --flops-rules rules -o"
$run estimated.json -- {often} strsm_ 2>estimated.log
{perfx} peaks >peaks.txt
$run cached.json -- {often} strsm_ 2>cached.log
"""


@pytest.mark.alone
def test_not_measured_beside_a_job(tmp_path):
    """Without a stored measurement and beside other work: an estimate, marked so. Measured on request;
    then stored."""
    (tmp_path / "rules").write_text("often:main flops = 1000000; dtype = f64\n")
    script = SCRIPT.format(perfx=PERFX, often=WORKLOADS / "often")
    job = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        result = subprocess.run(["unshare", "-m", "sh", "-c", script], stdin=subprocess.DEVNULL, cwd=tmp_path,
                                capture_output=True, text=True, timeout=120)
    finally:
        for spinning in job:
            spinning.kill()
            spinning.wait()
    assert result.returncode == 0, result.stderr + (tmp_path / "estimated.log").read_text()
    said = (tmp_path / "estimated.log").read_text()
    assert "estimated peak of this host" in said and "sudo perfx-trace peaks" in said
    estimated = json.loads((tmp_path / "estimated.json").read_text())
    assert {p["origin"] for p in estimated["peaks"]} == {"estimated"}
    assert all(p["compute"]["peak_estimated"] for p in estimated["processes"])
    assert "Stored in /var/cache/perfx-trace/peaks." in (tmp_path / "peaks.txt").read_text()
    assert "estimated peak" not in (tmp_path / "cached.log").read_text()
    cached = json.loads((tmp_path / "cached.json").read_text())
    assert {p["origin"] for p in cached["peaks"]} == {"cached"}
    assert not any("peak_estimated" in p["compute"] for p in cached["processes"])


@pytest.mark.parametrize("option, value", [("--peak-flops", "fast"), ("--peak-flops", "f31:1T"),
                                           ("--peak-bandwidth", "25")])
def test_what_is_no_rate_is_refused(option, value):
    result = run("-p", "1", option, value)
    assert result.returncode == 2
    assert option in result.stderr and value in result.stderr
