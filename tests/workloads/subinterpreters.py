# SPDX-License-Identifier: BSD-2-Clause
"""Runs functions of its own in subinterpreters: the main thread in one that it made, a thread in one that the thread
made, and another thread in one that the main thread made. The comments at the lines are what the test looks for.

    program → "ready PID"
    test    → "go", any number of times → "done": each thread has called crc32 CALLS times inside
    test    → "contend" → "done": two threads of one subinterpreter have computed for two seconds
    test    → "compute": each thread computes inside until the program is killed
"""
import os
import sys
import time
import zlib

CALLS = 7
DATA = b"x" * 10000


def calls():
    for _ in range(CALLS):
        zlib.crc32(DATA)  # calls inside


def computes_of_main():
    while True:
        sum(i * i for i in range(20000))  # computes of main
        time.sleep(0)  # up to 3.11 no thread asks one of another interpreter for the GIL


def computes_of_maker():
    while True:
        sum(i * i for i in range(20000))  # computes of maker
        time.sleep(0)


def computes_of_guest():
    while True:
        sum(i * i for i in range(20000))  # computes of guest
        time.sleep(0)


def contends():
    import threading  # pylint: disable=import-outside-toplevel

    def work():
        end = time.monotonic() + 2
        while time.monotonic() < end:
            sum(range(1000))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(interpreters, interpreter, function):
    code = f"import sys; sys.path.insert(0, {sys.path[0]!r}); import subinterpreters; subinterpreters.{function}()"
    interpreters.run_string(interpreter, code)  # runs it


def main():
    import threading  # pylint: disable=import-outside-toplevel
    try:
        import _interpreters as interpreters  # pylint: disable=import-outside-toplevel
    except ImportError:
        import _xxsubinterpreters as interpreters  # pylint: disable=import-outside-toplevel

    made = []  # kept: their code is to be there when its names are read

    def make_and_run(function):
        made.append(interpreters.create())
        run(interpreters, made[-1], function)

    def run_all(of_main, of_maker, of_guest):
        guest = interpreters.create()
        made.append(guest)
        threads = [threading.Thread(target=make_and_run, args=(of_maker,)),
                   threading.Thread(target=run, args=(interpreters, guest, of_guest))]
        for thread in threads:
            thread.start()
        make_and_run(of_main)
        for thread in threads:
            thread.join()

    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        if line.startswith("compute"):
            run_all("computes_of_main", "computes_of_maker", "computes_of_guest")
        elif line.startswith("contend"):
            make_and_run("contends")
        else:
            run_all("calls", "calls", "calls")
        print("done", flush=True)
    os._exit(0)  # CPython 3.11.7 hangs as it ends interpreters that another thread has made


if __name__ == "__main__":
    main()
