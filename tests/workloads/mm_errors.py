#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A program in an experiment: torch.mm with shapes that do not fit, caught, again and again, among
calls that succeed. Protocol and expectations: known.h."""
import os
import sys

import torch

ROUNDS = 500


def main():
    left, right = torch.ones(4, 5), torch.ones(5, 6)
    runs = caught = 0
    torch.mm(left, right)
    print(f"ready {os.getpid()}", flush=True)
    for line in sys.stdin:
        if line != "go\n":
            continue
        runs += 1
        for _ in range(ROUNDS):
            try:
                torch.mm(right, left[:3])
            except RuntimeError as error:
                caught += "shapes cannot be multiplied" in str(error)
            if torch.mm(left, right).sum().item() != 120:
                sys.exit("harmed: a wrong product")
        print("done", flush=True)
    if caught != runs * ROUNDS:
        sys.exit(f"harmed: {caught} of {runs * ROUNDS} errors were caught")
    print(f"expect mm::call calls {2 * runs * ROUNDS}")
    print(f"expect mm::call unwound {runs * ROUNDS}")


if __name__ == "__main__":
    main()
