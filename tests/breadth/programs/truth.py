# SPDX-License-Identifier: BSD-2-Clause
"""Each program of this folder prints READY and its pid, works for the seconds of its first argument,
and prints the end times of its steps, with the floating-point operations of one step if known."""
import json
import os
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0


class Truth:
    def __init__(self, flops=None):
        self.flops = flops
        self.ends_ns = []
        self.until = time.monotonic() + SECONDS
        print("READY", os.getpid(), flush=True)

    def going(self):
        return time.monotonic() < self.until

    def step(self):
        self.ends_ns.append(time.time_ns())

    def finish(self):
        print("TRUTH", json.dumps({"flops": self.flops, "ends_ns": self.ends_ns}), flush=True)


def flops_of(step):
    """FLOPs of one call of step, by PyTorch's own counter."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()
