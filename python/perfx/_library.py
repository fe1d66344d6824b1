# SPDX-License-Identifier: BSD-2-Clause
"""libperfx by ctypes. Without the library, annotations do nothing, so that a training job still runs."""
import ctypes
import os
import pathlib
import warnings

NAME = "libperfx.so.1"
HERE = pathlib.Path(__file__).resolve().parent

# name, result, arguments: as in perfx.h
FUNCTIONS = [
    ("range_push_in", None, (ctypes.c_char_p, ctypes.c_uint64)),
    ("range_pop", None, ()),
    ("range_start_in", ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_uint64)),
    ("range_end", None, (ctypes.c_uint64,)),
    ("mark", None, (ctypes.c_char_p,)),
    ("counter", None, (ctypes.c_char_p, ctypes.c_double)),
    ("counter_add", None, (ctypes.c_char_p, ctypes.c_double)),
    ("memory_alloc", None, (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)),
    ("memory_free", None, (ctypes.c_char_p, ctypes.c_void_p)),
    ("flops", None, (ctypes.c_uint64,)),
    ("step_begin", None, ()),
    ("step_end", None, ()),
    ("trace_start", None, ()),
    ("trace_stop", None, ()),
]


def source_tree():
    """The project's folder if this package is used from its source tree, else None."""
    top = HERE.parents[1]
    return top if (top / "include" / "perfx.h").is_file() else None


def prefixes():
    """Prefixes of `make install` to search, nearest first."""
    yield from (parent.parent for parent in HERE.parents if parent.name in ("lib", "lib64"))
    yield pathlib.Path("/usr/local")
    yield pathlib.Path("/usr")


def candidates():
    if os.environ.get("PERFX_LIBRARY"):
        yield os.environ["PERFX_LIBRARY"]
        return
    paths = [HERE / NAME]  # pip put it beside this file
    if source_tree():
        paths.append(source_tree() / "build" / NAME)
    paths += [prefix / "lib" / NAME for prefix in prefixes()]
    yield from (str(path) for path in paths if path.is_file())
    yield NAME


def load():
    """The library, or None. PyDLL keeps the GIL: releasing it would cost more than the call, and other
    threads could run in between."""
    reasons = []
    for path in candidates():
        try:
            return ctypes.PyDLL(path)
        except OSError as error:
            reasons.append(str(error))
    if os.name == "posix" and os.uname().sysname == "Linux":
        warnings.warn("perfx: " + NAME + " not found, annotations do nothing: `make install` it, or set "
                      "PERFX_LIBRARY (" + "; ".join(reasons) + ")", RuntimeWarning,
                      stacklevel=4)
    return None


def no_function(*_arguments):
    return 0


class Functions:
    """The functions of perfx.h, without the prefix perfx_."""

    def __init__(self, library):
        self.found = library is not None
        for name, result, arguments in FUNCTIONS:
            function = getattr(library, "perfx_" + name) if library else no_function
            if library:
                function.restype = result
                function.argtypes = arguments
            setattr(self, name, function)


functions = Functions(load())


def encode(name):
    """The name as bytes for the library."""
    if isinstance(name, str):
        return name.encode("utf-8", "surrogatepass")
    if isinstance(name, bytes):
        return name
    raise TypeError(f"a name must be str or bytes, not {type(name).__name__}")
