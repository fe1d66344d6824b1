#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints the line tables of some functions, and the line of each instruction, as the interpreter
that runs this knows them: an entry of tests/unit/line_tables.h.

    for minor in 8 9 10 11 12 13; do python3.$minor tests/unit/data/line_tables.py; done
"""
import dis
import sys


def plain(a):
    b = a + 1
    return b


def loop(values):
    total = 0
    for value in values:
        if value > 3:
            total += (
                value
                * 2
            )
        else:
            total -= 1

    return total


def cleanup(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError as err:
        raise ValueError(
            path
        ) from err
    finally:
        print(path)


def backwards(f):
    return f(
        1,
        [x for x in range(3)], f(
            2),
    ) or (lambda: f(3))()


FAR = "def far(a):\n  b = a\n" + "\n" * 700 + "  c = (a +\n" + "\n" * 140 + "b)\n" \
    + "  return [" + "a, " * 300 + "c]\n"


def lines_of(code):
    """The line of each code unit of 2 bytes; 0: none."""
    units = [0] * (len(code.co_code) // 2)
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            for unit in range(start // 2, end // 2):
                units[unit] = line or 0
        return units
    for start, line in dis.findlinestarts(code):
        units[start // 2:] = [line] * (len(units) - start // 2)
    return units


def show(code):
    version = sys.version_info[:2]
    table = code.co_lnotab if version < (3, 10) else code.co_linetable
    table_format = "LNOTAB" if version < (3, 10) else "RANGES" if version < (3, 11) else "LOCATIONS"
    lines = lines_of(code)
    runs = []
    for line in lines:
        if runs and runs[-1][1] == line:
            runs[-1][0] += 1
        else:
            runs.append([1, line])
    print("\t{")
    print(f'\t\t.name = "{code.co_name} {version[0]}.{version[1]}",')
    print(f"\t\t.format = LINE_TABLE_{table_format},")
    print(f"\t\t.first_line = {code.co_firstlineno},")
    print(f"\t\t.length = {len(table)},")
    print("\t\t.bytes = (const uint8_t[]){%s}," % ", ".join(map(str, table)))
    print(f"\t\t.runs_count = {len(runs)},")
    print("\t\t.runs = (const struct line_run[]){%s}," % ", ".join("{%d, %d}" % tuple(r) for r in runs))
    print("\t},")


def main():
    names = {}
    exec(compile(FAR, "far", "exec"), names)
    for function in plain, loop, cleanup, backwards, names["far"]:
        show(function.__code__)


main()
