# SPDX-License-Identifier: BSD-2-Clause
"""python -m perfx_trace ARGUMENTS: becomes the perfx-trace of this installation, in whichever PATH."""
import importlib.metadata
import os
import sys


def program():
    """The file's path, by pip's list of what it installed."""
    for file in importlib.metadata.files("perfx-trace"):
        if file.parts[-2:] == ("bin", "perfx-trace"):
            return os.path.realpath(file.locate())
    sys.exit("perfx_trace: this installation has no bin/perfx-trace: install the wheel again")


if __name__ == "__main__":
    try:
        os.execv(program(), [program(), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"perfx_trace: {program()}: {error.strerror}")
