# SPDX-License-Identifier: BSD-2-Clause
"""Throughput by number of producers: each thread makes as many calls as it can, every call a record,
with one ring for all threads and with several."""

import rate
from output import number, say, table

RINGS = (1, 2, 8)
PRODUCERS = sorted({1, 2, rate.CPUS, 2 * rate.CPUS, 4 * rate.CPUS})


class Ring(rate.Rate):
    def run(self):
        rounds = [(threads, rings, self.measure(0, threads, "--rings", str(rings)))
                  for _ in range(self.options.rounds)
                  for threads in PRODUCERS for rings in RINGS]
        say(f"Calls a second over producers, each a record ({rate.FUNCTION}), by number of rings: "
            f"median of {self.options.rounds}; in brackets the share without room in a ring")
        table(["threads", *(f"{rings} ring{'s' * (rings > 1)}" for rings in RINGS), "gain"],
              [self.row(rounds, threads) for threads in PRODUCERS])
        say("  calls and totals are exact in "
            f"{sum(r['calls'] == r['calls_reported'] for _, _, r in rounds)} of {len(rounds)} runs")
        say()
        return [{**result, "rings": rings} for _, rings, result in rounds]

    @staticmethod
    def row(rounds, threads):
        medians, cells = {}, []
        for rings in RINGS:
            runs = sorted((r for t, n, r in rounds if (t, n) == (threads, rings)),
                          key=lambda r: r["per_second"])
            median = runs[len(runs) // 2]
            medians[rings] = median["per_second"]
            cells.append(f"{number(median['per_second'])} "
                         f"({100 * median['ring_drops'] / median['calls']:.1f} %)")
        return [threads, *cells, f"{max(medians[n] for n in RINGS[1:]) / medians[1]:.2f}"]
