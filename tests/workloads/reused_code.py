# SPDX-License-Identifier: BSD-2-Clause
"""Code objects that follow each other at one address: generated code, alike except for the name of its
file, each compiled, run for a quarter of a second of CPU time and freed. Prints the time of each, and
the number of different addresses."""
import json
import time

TEXT = """
def work(clock, end):
    while clock() < end:
        pass
"""


seconds, addresses = {}, set()
for n in range(6):
    space = {}
    exec(compile(TEXT, f"piece_{n:02}.py", "exec"), space)
    addresses.add(id(space["work"].__code__))
    start = time.process_time()
    space["work"](time.process_time, start + 0.25)
    seconds[f"piece_{n:02}.py"] = time.process_time() - start
    space.clear()  # the function is freed at once, and not by the collector
print(json.dumps({"seconds": seconds, "addresses": len(addresses)}), flush=True)
