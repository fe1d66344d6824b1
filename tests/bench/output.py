# SPDX-License-Identifier: BSD-2-Clause
"""Results as text: aligned tables, medians with their spread."""

import statistics
import sys


def say(line=""):
    print(line, flush=True)


def progress(what):
    """On a terminal, the current measurement; the next one overwrites it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def median(values):
    return statistics.median(values) if values else None


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def spread(values, digits=0):
    """median, min and max as three cells"""
    if not values:
        return ["-", "-", "-"]
    return [number(v, digits) for v in (median(values), min(values), max(values))]


def table(heads, rows, left=1):
    """Rows of cells under heads; the first `left` columns are text, the others numbers. A string as a
    row is a heading."""
    cells = [heads] + [[str(cell) for cell in row] for row in rows if not isinstance(row, str)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]

    def line(row):
        return "  ".join(c.ljust(w) if i < left else c.rjust(w)
                         for i, (c, w) in enumerate(zip(row, widths))).rstrip()

    say("  " + line(heads))
    for row in rows:
        say(row if isinstance(row, str) else "  " + line([str(cell) for cell in row]))


class Aims:
    """Aims beside measured values. Nothing is asserted."""

    def __init__(self):
        self.rows = []

    def add(self, what, measured, aim, unit="", digits=0):
        """measured should be at most aim."""
        if measured is None or aim is None:
            self.rows.append({"what": what, "measured": measured, "aim": aim, "met": None})
            say(f"  aim: {what}: not measured")
            return
        met = measured <= aim
        self.rows.append({"what": what, "measured": measured, "aim": aim, "met": met})
        by = "" if met or not aim else f" by {100 * (measured / aim - 1):.0f} %"
        say(f"  aim: {what}: {measured:,.{digits}f}{unit}, at most {aim:,.{digits}f}{unit}: "
            f"{'met' if met else 'missed' + by}")
