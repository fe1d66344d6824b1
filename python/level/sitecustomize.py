# SPDX-License-Identifier: BSD-2-Clause
"""Python imports this module at its start, because `perfx-trace run --python-level 1` puts this folder
first into PYTHONPATH. It imports the sitecustomize that it hides, and makes each call of a Python
function a range."""
import os
import sys


def give_way():
    """Imports the sitecustomize that Python would have found without this folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    mine = sys.modules.pop("sitecustomize", None)
    sys.path_importer_cache.pop(here, None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        if mine:
            sys.modules.setdefault("sitecustomize", mine)
    return here


def load_hook(folder):
    """Loads the hook without import, because the program may have a module of that name."""
    path = os.path.join(folder, "perfx_functions.py")
    names = {"__name__": "perfx_functions"}
    with open(path, "rb") as source:
        exec(compile(source.read(), path, "exec"), names)  # pylint: disable=exec-used
    return names


try:
    FOLDER = give_way()
finally:
    # A traced program may start an older Python.
    if os.environ.get("PERFX_PYTHON_LIBRARY") and sys.version_info >= (3, 8):
        load_hook(os.path.dirname(os.path.abspath(__file__)))["start"](
            os.environ["PERFX_PYTHON_LIBRARY"])
