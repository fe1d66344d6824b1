# SPDX-License-Identifier: BSD-2-Clause
"""Allocates known bytes at known lines and calls a library from known lines, in the ways in which
Python runs Python: methods, callbacks out of C, generators, closures, threads. Its lines are what
the test expects: `# N bytes` is said where they are allocated, `# crc32` where it is called.

    program → "ready PID"
    test    → "go", any number of times → "done"
    test    → "wait"                    → "done": a thread sits in each of wait_here and hold_here
    test    → "compute"                 it does so until it is killed
"""
import ctypes
import os
import sys
import threading
import time

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.usleep.argtypes = [ctypes.c_uint]
zlib = ctypes.CDLL("libz.so.1")
zlib.crc32.argtypes = [ctypes.c_ulong, ctypes.c_char_p, ctypes.c_uint]
DATA = b"x" * 1000


class Model:
    def forward(self):
        block = libc.malloc(100003)  # 100003 bytes
        other = libc.malloc(
            200003)  # 200003 bytes, of the line above
        libc.free(block)
        libc.free(other)

    @classmethod
    def crc(cls):
        for _ in range(7):
            zlib.crc32(0, DATA, len(DATA))  # crc32 7


def key(value):
    libc.free(libc.malloc(300007))  # 300007 bytes
    return value


def numbers():
    for i in range(3):
        libc.free(libc.malloc(400009))  # 400009 bytes
        yield i


def recurse(depth):
    if depth:
        return recurse(depth - 1)
    libc.free(libc.malloc(500009))  # 500009 bytes
    return [key(value) for value in (1, 2)]


def work():
    Model().forward()
    sorted([2, 1], key=key)
    list(map(lambda i: key(i), numbers()))
    recurse(20)
    Model.crc()
    zlib.crc32(0, DATA, 10), zlib.crc32(0, DATA, 10)  # crc32 2


def go():
    other = threading.Thread(target=work)
    other.start()
    other.join()
    work()


def wait_here():
    libc.usleep(60000000)


def hold_here():
    time.sleep(60)


def wait():
    for target in wait_here, lambda: hold_here():
        threading.Thread(target=target, daemon=True).start()
    time.sleep(0.5)


def words_of(text):
    found = {}
    for i in range(len(text) - 3):
        word = text[i:i + 3]
        found[word] = found.get(word, 0) + 1
    return found


def compute():
    text = "it is all Python: no call takes long, and no line takes all of the time " * 20
    while True:
        common = [word for word, count in words_of(text).items() if count > 20]
        total = 0
        for word in common:
            for letter in word:
                total += ord(letter) ** 2 % 7


def main():
    work()
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        {"go": go, "wait": wait, "compute": compute}[line.strip()]()
        print("done", flush=True)
    os._exit(0)


main()
