# SPDX-License-Identifier: BSD-2-Clause
"""Makes each call of a Python function a range, and each resumption of a generator: by sys.monitoring
from 3.12 on, otherwise by sys.setprofile. Functions that are already running have no range, so their
ends are ignored. Calls during an import have none either: a framework's imports call thousands of
functions once, from thousands of places, and none is a step."""
import ctypes
import sys
import threading


IMPORTERS = ("<frozen importlib.", "<frozen zipimport>")


class Names:
    """Names of code objects, as bytes; None for the importer's. They are keyed by identity, because equal
    code objects may be different functions, and kept alive, so that no other gets their address."""

    def __init__(self):
        self.known = {}

    def find(self, code, frame):
        if code.co_filename.startswith(IMPORTERS):
            self.known[id(code)] = (None, code)
            return None
        module = frame.f_globals.get("__name__", "?") if frame else "?"
        name = f"{module}.{getattr(code, 'co_qualname', code.co_name)}"
        encoded = name.encode("utf8", "replace")
        self.known[id(code)] = (encoded, code)
        return encoded


def markers(path):
    library = ctypes.PyDLL(path)
    push, pop = library.perfx_range_push, library.perfx_range_pop
    push.argtypes, push.restype = [ctypes.c_char_p], None
    pop.argtypes, pop.restype = [], None
    return push, pop


def frames_below(frame):
    count = 0
    while frame:
        count += 1
        frame = frame.f_back
    return count


# --- sys.setprofile ---

def profiler(push, pop, names):
    """The profile function of one thread."""
    known, find = names.known, names.find
    depth = importing = 0  # open calls: with a range; of the importer and inside it

    def on_event(frame, event, _):
        nonlocal depth, importing
        if event == "call":
            code = frame.f_code
            found = known.get(id(code))
            name = found[0] if found else find(code, frame)
            if importing or name is None:
                importing += 1
                return
            depth += 1
            push(name)
        elif event == "return":
            if importing:
                importing -= 1
            elif depth:
                depth -= 1
                pop()

    return on_event


def start_profile(push, pop, names):
    def on_first_event(frame, event, arg):
        own = profiler(push, pop, names)
        sys.setprofile(own)
        own(frame, event, arg)

    threading.setprofile(on_first_event)
    sys.setprofile(profiler(push, pop, names))


# --- sys.monitoring ---

def start_monitoring(push, pop, names):
    monitoring = sys.monitoring
    events = monitoring.events
    known, find = names.known, names.find
    tool = next((i for i in (2, 3, 4, 1, 0) if monitoring.get_tool(i) is None), None)
    if tool is None:
        return
    monitoring.use_tool_id(tool, "perfx-trace")

    class Thread(threading.local):
        importing = 0  # open calls of the importer and inside it

    thread = Thread()

    def begins(code, *_):
        found = known.get(id(code))
        name = found[0] if found else find(code, sys._getframe(1))
        if name is None or thread.importing:
            thread.importing += 1
        else:
            push(name)

    def ends(*_):
        if thread.importing:
            thread.importing -= 1
        else:
            pop()

    def watch(begin, end):
        for event in (events.PY_START, events.PY_RESUME, events.PY_THROW):
            monitoring.register_callback(tool, event, begin)
        for event in (events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND):
            monitoring.register_callback(tool, event, end)

    # Ends of the functions that are already running are ignored; there is only one thread yet.
    running = frames_below(sys._getframe(0))
    depth = 0

    def begins_at_first(code, *_):
        nonlocal depth
        depth += 1
        if id(code) not in known:
            find(code, sys._getframe(1))
        begins(code)

    def ends_at_first(*_):
        nonlocal depth, running
        if depth:
            depth -= 1
            ends()
            return
        running -= 1
        if not running:
            watch(begins, ends)

    watch(begins_at_first, ends_at_first)
    monitoring.set_events(tool, events.PY_START | events.PY_RESUME | events.PY_THROW |
                          events.PY_RETURN | events.PY_YIELD | events.PY_UNWIND)


def start(path):
    try:
        push, pop = markers(path)
    except (OSError, AttributeError) as error:
        sys.stderr.write(f"perfx-trace: Python functions are not traced: {error}\n")
        return
    if hasattr(sys, "monitoring"):
        start_monitoring(push, pop, Names())
    else:
        start_profile(push, pop, Names())
