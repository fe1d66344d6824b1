#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads a file whose server answers no more: `slow_file.py DIRECTORY`. A FUSE file system with one file, "data", is
mounted there, in a mount namespace of its own; a child serves it until the first read. Prints "ready PID"."""
import ctypes
import os
import signal
import struct
import sys
import threading

LOOKUP, GETATTR, OPEN, READ, INIT = 1, 3, 14, 15, 26
FORGET, ENOSYS = 2, 38
DATA = 2  # its inode; 1 is the directory

libc = ctypes.CDLL(None, use_errno=True)


def attributes(inode):
    mode = 0o40755 if inode == 1 else 0o100644
    return struct.pack("<6Q3I7I", inode, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, inode):
    """Attributes are valid for no time at all: whoever asks for them asks the server."""
    if opcode == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
    if opcode == LOOKUP:
        return struct.pack("<4Q2I", DATA, 0, 0, 0, 0, 0) + attributes(DATA)
    if opcode == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attributes(inode)
    if opcode == OPEN:
        return struct.pack("<QII", 1, 0, 0)
    return None


def serve(device):
    while True:
        request = os.read(device, 1 << 17)
        _, opcode, unique, inode = struct.unpack_from("<IIQQ", request)
        if opcode == FORGET:
            continue
        if opcode == READ:
            break
        body = answer(opcode, inode)
        error = 0 if body is not None else -ENOSYS
        os.write(device, struct.pack("<IiQ", 16 + len(body or b""), error, unique) + (body or b""))
    signal.pause()


def call(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(directory):
    """The descriptor from which its requests are read."""
    call(libc.unshare(0x00020000))  # CLONE_NEWNS
    call(libc.mount(None, b"/", None, 0x44000, None))  # MS_REC | MS_PRIVATE
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    call(libc.mount(b"slow", directory.encode(), b"fuse", 0, options))
    return device


def read_slowly(path):
    with open(path, "rb") as file:
        file.read(1)


def main():
    device = mount(sys.argv[1])
    server = os.fork()
    if not server:
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        serve(device)
    os.close(device)
    threading.Thread(target=read_slowly, args=(os.path.join(sys.argv[1], "data"),), daemon=True).start()
    print("ready", os.getpid(), flush=True)
    sys.stdin.read()
    os.kill(server, signal.SIGKILL)
    os._exit(0)


main()
