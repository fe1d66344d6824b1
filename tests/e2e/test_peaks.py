# SPDX-License-Identifier: BSD-2-Clause
"""What the host can do, as the user gives it: in the report, and nothing measured."""
import json
import subprocess

import pytest
from conftest import PERFX, WORKLOADS, run


def peaks_of(tmp_path, *options):
    file = tmp_path / "report.json"
    result = subprocess.run([PERFX, "run", "-o", str(file), "-F", "often:*", *options, "--",
                             str(WORKLOADS / "often"), "strsm_"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=60)
    assert "what this host can do" not in result.stderr, result.stderr
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


def test_without_figures_there_are_no_peaks(tmp_path):
    assert peaks_of(tmp_path) == []


@pytest.mark.parametrize("option, value", [("--peak-flops", "fast"), ("--peak-flops", "f31:1T"),
                                           ("--peak-bandwidth", "25")])
def test_what_is_no_rate_is_refused(option, value):
    result = run("-p", "1", option, value)
    assert result.returncode == 2
    assert option in result.stderr and value in result.stderr
