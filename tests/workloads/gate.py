# SPDX-License-Identifier: BSD-2-Clause
"""What the Python trainers share: a gate, so that a test knows exactly what ran while it traced.

    program → "ready PID"      warmed up, idle: attach now
    test    → "run 10"         ten training steps
    program → "done 10"        idle again
    test closes stdin          the program prints its totals and ends

Without the gate the program trains until it has done --steps, or SIGINT or SIGTERM.
"""

import os
import signal
import sys
import time


def say(line):
    print(line, flush=True)


def add_arguments(parser):
    parser.add_argument("--steps", type=int, default=0, help="stop after so many (0: never)")
    parser.add_argument("--gate", action="store_true", help="take commands on standard input")
    parser.add_argument("--every", type=int, default=50, help="steps from line to line")
    parser.add_argument("--quiet", action="store_true")


class Trainer:
    """step() does one training step and returns its loss; commands are further words for the gate, each
    with a function of a number of steps."""

    def __init__(self, args, step, commands=None):
        self.args = args
        self.step = step
        self.steps = 0
        self.seconds = 0.0
        self.commands = {"run": self.run} | (commands or {})
        self.stopped = False

    def stop(self, *_):
        self.stopped = True

    def run(self, count):
        """Runs count steps; returns the mean loss."""
        start = time.perf_counter()
        total = 0.0
        done = 0
        while done < count and not self.stopped:
            total += self.step()
            done += 1
        self.seconds += time.perf_counter() - start
        self.steps += done
        return total / max(done, 1)

    def obey(self):
        say(f"ready {os.getpid()}")
        for line in sys.stdin:
            word, _, number = line.partition(" ")
            if word not in self.commands or not number.strip().isdigit():
                sys.exit(f"gate: {line.strip()!r} is none of {', '.join(self.commands)} N")
            self.commands[word](int(number))
            say(f"done {number.strip()}")

    def train(self):
        signal.signal(signal.SIGINT, self.stop)
        signal.signal(signal.SIGTERM, self.stop)
        while not self.stopped and not (self.args.steps and self.steps >= self.args.steps):
            before = self.seconds
            left = self.args.steps - self.steps if self.args.steps else self.args.every
            done = self.steps
            loss = self.run(min(self.args.every, left))
            if not self.args.quiet and self.steps > done:
                each = (self.seconds - before) * 1000 / (self.steps - done)
                say(f"step {self.steps} loss {loss:.4f} ms/step {each:.2f}")

    def main(self):
        if self.args.gate:
            self.obey()
        else:
            self.train()
        say(f"steps={self.steps}")
        say(f"ms_per_step={self.seconds * 1000 / max(self.steps, 1):.3f}")
