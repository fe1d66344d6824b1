# SPDX-License-Identifier: BSD-2-Clause
"""What each program of this folder does: say READY and its pid, work for the seconds of its first argument, and print the
times at which its steps ended, with the floating-point operations of one step where these are known."""
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
    """Of one call of step, as PyTorch's own counter has it."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()
