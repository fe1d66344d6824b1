# SPDX-License-Identifier: BSD-2-Clause
"""The stack of BPF programs: kernels allow 512 bytes to functions that call each other, and those
before 6.8 round each one's up to 32. A program beyond that fails to load only there."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from project import TOP

STACK_MAX = 512
ROUND = 32
BUILD = pathlib.Path(os.environ.get("BUILD", TOP / "build"))
OBJECTS = sorted((TOP / BUILD).glob("bpf/x86/[!p]*.bpf.o")) + sorted(
    (TOP / BUILD).glob("bpf/x86/process.bpf.o"))


def functions(text):
    """By name: bytes of stack, and the functions called."""
    found, current, section, starts, call, frame = {}, None, "", {}, 0, None
    for line in text.splitlines():
        if line.startswith("Disassembly of section "):
            section = line.split()[-1].rstrip(":")
        label = re.match(r"([0-9a-f]+) <(.+)>:$", line)
        if label and not label[2].startswith("LBB"):
            current = found.setdefault(label[2], [0, set()])
            starts[section, int(label[1], 16)] = label[2]
        elif not label and current:
            for offset in re.findall(r"r10 - (0x[0-9a-f]+|\d+)\)", line):
                current[0] = max(current[0], int(offset, 0))
            # the address of a variable: rN = r10, then rN += -offset
            moved = re.search(r"(r\d+) \+= -(\d+)$", line)
            if moved and frame == moved[1]:
                current[0] = max(current[0], int(moved[2]))
            copied = re.search(r"(r\d+) = r10$", line)
            frame = copied[1] if copied else None
            if "\tcall " in line:
                call = int(line.split()[-1], 0)
            called = re.search(r"R_BPF_64_32\s+(\S+)", line)
            if called:
                # a static function by its section, and where in there
                current[1].add((called[1], (call + 1) * 8) if called[1][0] == "." else called[1])
    return {name: (own, {starts.get(callee, callee) for callee in callees})
            for name, (own, callees) in found.items()}


def deepest(found, name):
    """Bytes and names of the deepest path from a function."""
    own, callees = found[name]
    below = max((deepest(found, callee) for callee in callees), default=(0, []))
    return max(ROUND, -(-own // ROUND) * ROUND) + below[0], [f"{name} {own}", *below[1]]


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_call_chains_fit(path):
    objdump = shutil.which("llvm-objdump")
    if not objdump:
        pytest.skip("no llvm-objdump")
    text = subprocess.run([objdump, "-dr", "--no-show-raw-insn", path], capture_output=True,
                          text=True, check=True).stdout
    found = functions(text)
    assert found
    for name in found:
        bytes_, chain = deepest(found, name)
        assert bytes_ <= STACK_MAX, " > ".join(chain)


def test_there_are_programs():
    assert OBJECTS
