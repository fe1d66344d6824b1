# SPDX-License-Identifier: BSD-2-Clause
"""Captures written by hand, in the simplest form of docs/capture.md: whole records, uncompressed."""
import struct
import zlib

SECOND = 10**9


def record(kind, fixed, *strings):
    body = fixed + b"".join(s.encode() + b"\0" for s in strings)
    size = 8 + len(body)
    return struct.pack("<IHH", size + -size % 8, kind, 8 + len(fixed)) + body + bytes(-size % 8)


def host(name="h"):
    return record(32, struct.pack("<QQQIIII", SECOND, SECOND, SECOND, 2, 64, 4096, 0), name, "6", "b", "c", "0")


def process(comm, cmdline):
    """Index 1, pid 42."""
    return record(33, struct.pack("<QQIIII", SECOND, SECOND, 1, 42, 1, 0), comm, cmdline)


def function(number, name, module):
    return record(34, struct.pack("<QIHH", 64 * number, number, 2, 0), name, module, "")


def torch_function(number, name, module):
    return record(34, struct.pack("<QIHH", 64 * number, number, 3, 0), name, module, "")


def marked(number, name, source=3, is_step=False):
    """A range with this name; source 3 is PyTorch's, 7 NVTX's."""
    return record(34, struct.pack("<QIHH", 0, number, source, 3 if is_step else 1), name, "", "")


def context(number, parent, of):
    return record(36, struct.pack("<IIII", number, parent, of, 1))


def span(start, duration, self_ns, of, depth=0, flags=0, tid=42):
    """A call of a function in the context of the same number. Flags: 8 a range that any thread may end."""
    return record(1, struct.pack("<QQQIIIIHHBBH", start, duration, self_ns, 1, of, of, tid, depth, flags, 0, 0, 0))


def computed(start, duration, of, flops, bytes_count, depth=0):
    """A call of f32 work, in the context of the same number."""
    return record(1, struct.pack("<QQQIIIIHHBBHQQ", start, duration, duration, 1, of, of, 42, depth, 0, 1, 2, 0,
                                 flops, bytes_count))


PYTHON = 1 << 63


def frame(address, name, module="", file="", line=0):
    """A frame of process 1; a Python frame if the address has the bit PYTHON."""
    return record(43, struct.pack("<QQIIHHHH", address, 16 * (address & 0xffff), 1, line, 0, address >> 63, 0, 0),
                  name, module, file)


def stack(number, *addresses):
    """A stack of process 1, innermost address first, complete up to the thread's start."""
    fixed = struct.pack("<IIII", number, 1, len(addresses), 2)
    body = fixed + struct.pack(f"<{len(addresses)}Q", *addresses)
    return struct.pack("<IHH", 8 + len(body), 4, 8 + len(fixed)) + body


def sample(time, of, nanoseconds=10**7):
    """A sample of the main thread on a CPU."""
    return record(6, struct.pack("<QQIIIIBBHIQ", time, nanoseconds, 1, 42, 0, of, 1, 0, 0, 0, 0))


def usage(time, cpu):
    """CPU time of the process; the rest was not measured."""
    return record(37, struct.pack("<QIIQQ", time, 1, 0, cpu, 0) + b"\xff" * 13 * 8)


def peak(flops, bandwidth):
    """The peak of one thread, for f32."""
    return record(44, struct.pack("<QQIBBH", flops, bandwidth, 1, 2, 0, 0))


def end(time):
    return record(51, struct.pack("<QIIQQQQ", time, 0, 0, 0, 0, 0, 0))


def block(records, number):
    columns = [bytes(len(records)), b"".join(records)] + [b""] * 8
    payload = struct.pack("<II", len(columns), 0)
    payload += b"".join(struct.pack("<II", len(c), len(c)) for c in columns) + b"".join(columns)
    header = b"PERFXBLK" + struct.pack("<IIIII", 1, len(payload), len(columns[1]), number, zlib.crc32(payload))
    return header + struct.pack("<I", zlib.crc32(header)) + payload


def write(path, batches):
    """Each batch of records is a block; at most 4 MiB."""
    with open(path, "wb") as out:
        out.write(b"PERFXCAP" + struct.pack("<II", 2, 1))
        for number, records in enumerate(batches):
            out.write(block(records, number))
