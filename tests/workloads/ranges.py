# SPDX-License-Identifier: BSD-2-Clause
"""Cases with known work, each in a traced function of its own (lib/ranges.c). A case is a name, what
to do, and how many floating-point operations that is. "expect 0" at the gate prints them as lines of
JSON: {"range": "range 10", "name": …, "flops": …}."""

import ctypes
import json

import gate

FIRST = 10


class Case:
    def __init__(self, library, number, name, body, flops):
        self.name = name
        self.flops = flops
        self.range = f"range {number}"
        self.call = getattr(library, f"range_{number}")
        self.error = None

        def run():
            try:
                body()
            except Exception as error:  # ctypes would print and forget it
                self.error = error

        self.body = ctypes.CFUNCTYPE(None)(run)

    def run(self):
        self.call(self.body)
        if self.error:
            raise RuntimeError(f"case {self.name!r}") from self.error


def main(parser, make):
    """make(args) returns [(name, body, flops), …]."""
    gate.add_arguments(parser)
    parser.add_argument("--ranges", required=True, help="ranges.so")
    args = parser.parse_args()
    library = ctypes.CDLL(args.ranges)
    cases = [Case(library, FIRST + i, *case) for i, case in enumerate(make(args))]

    def step():
        for case in cases:
            case.run()
        return 0.0

    def expect(_):
        for case in cases:
            gate.say(json.dumps({"range": case.range, "name": case.name, "flops": case.flops}))

    step()
    gate.Trainer(args, step, {"expect": expect}).main()
