# SPDX-License-Identifier: BSD-2-Clause
"""Checks measured peaks against OpenBLAS, which reaches about nine tenths of a core's peak on large
matrices, and cannot exceed it."""

import os
import subprocess

from output import number, progress, say, table

NAMES = {"f64": "dgemm", "f32": "sgemm"}
# gemm over peak: below, the peak is a fancy; above, it is none.
LEAST, MOST = 0.90, 1.03


def environment():
    """OpenBLAS knows CPUs by number, and uses its oldest kernels for a CPU that is newer than the
    library. So the environment names the kernels by the CPU's features."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = file.read()
    core = "SkylakeX" if " avx512dq" in flags else "Haswell" if " avx2" in flags else None
    return {**({"OPENBLAS_CORETYPE": core} if core else {}), **os.environ}


def parse(line):
    """'spent 0.6 f64 peak 1 beside 2 dgemm 3 f32 …' → {'f64': {'peak': 1, …}, …}, seconds"""
    words = line.split()
    row = {}
    for kind, gemm in NAMES.items():
        at = words.index(kind)
        row[kind] = dict(zip(words[at + 1:at + 7:2], map(float, words[at + 2:at + 8:2])))
        row[kind]["gemm"] = row[kind].pop(gemm)
    return row, float(words[1])


class Peaks:
    def __init__(self, options, aims):
        self.options = options
        self.aims = aims

    def run(self):
        say("peaks: the measured ones beside OpenBLAS, one thread, GFLOP/s, best of "
            f"{self.options.rounds} rounds")
        progress("peaks")
        lines = subprocess.run([os.path.join(self.options.build, "bench", "bench_peaks"),
                                str(self.options.rounds)], env=environment(), check=True,
                               stdout=subprocess.PIPE, text=True).stdout.splitlines()
        rounds = [parse(line) for line in lines[1:]]
        rows = []
        for kind, gemm in NAMES.items():
            best = {key: max(row[kind][key] for row, _ in rounds)
                    for key in ("peak", "beside", "gemm")}
            rows.append([kind, *(number(best[key], 1) for key in ("peak", "beside", "gemm")),
                         number(best["gemm"] / best["peak"], 3),
                         number(best["gemm"] / best["beside"], 3)])
            self.aims.add(f"{gemm} over the measured peak: distance from {LEAST} to {MOST}",
                          max(LEAST - best["gemm"] / best["peak"],
                              best["gemm"] / best["peak"] - MOST, 0), 0, digits=3)
        progress("")
        table(["", "peak", "kernel beside", "OpenBLAS", "of peak", "of kernel"], rows)
        seconds = max(seconds for _, seconds in rounds)
        self.aims.add("time of a measurement", seconds, 1, " s", 2)
        say(f"  OpenBLAS: kernels for {lines[0].split()[1]}\n")
        return {"core": lines[0].split()[1], "rounds": lines[1:]}
