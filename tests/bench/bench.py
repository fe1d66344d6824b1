#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Cost of tracing, beside peers and an empty program: run by make bench.

All measurements are interleaved (A B C A B C …) and reported as a median with its spread; the
rounds are in BUILD/bench.json. Nothing is asserted: aims are printed beside the results."""

import argparse
import json
import os
import platform
import sys
import time

import annotations
import attach
import calls
import capture
import cnn
import estimate
import flops
import memory
import output
import peaks
import rate
import ready
import ring
import stacks

TABLES = {"calls": calls.Calls, "cnn": cnn.Cnn, "small": cnn.Small, "attach": attach.Attach, "ready": ready.Ready,
          "rate": rate.Rate, "ring": ring.Ring, "memory": memory.Memory, "flops": flops.Flops,
          "peaks": peaks.Peaks, "capture": capture.Capture, "annotations": annotations.Annotations,
          "stacks": stacks.Stacks, "estimate": estimate.Estimate}
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", default="all", choices=("all", *TABLES))
    parser.add_argument("--build", default="build")
    parser.add_argument("--venv", default="build/ml-venv", help="with a current PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.source = SOURCE
    return options


def host():
    return {"machine": platform.machine(), "kernel": platform.release(), "cpus": os.cpu_count(),
            "load": os.getloadavg()[0]}


def main():
    options = arguments()
    if os.geteuid():
        sys.exit("make bench: tracing needs root: sudo make bench")
    names = list(TABLES) if options.table == "all" else [options.table]
    aims = output.Aims()
    result = {"host": host(), "start_unix": int(time.time()), "rounds": options.rounds}
    about = result["host"]
    output.say(f"Linux {about['kernel']}, {about['machine']}, {about['cpus']} CPUs, load "
               f"{about['load']:.2f}: other work on this machine shows in the spread\n")
    for name in names:
        result[name] = TABLES[name](options, aims).run()
    missed = sum(row["met"] is False for row in aims.rows)
    output.say(f"{missed} of {len(aims.rows)} aims missed")
    result["aims"] = aims.rows
    path = os.path.join(options.build, "bench.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, default=vars)
    output.say(f"rounds and all: {path}")


if __name__ == "__main__":
    main()
