# SPDX-License-Identifier: BSD-2-Clause
"""Annotations for perfx-trace: ranges, steps, counters, memory; and profile(), which traces a call.

    import perfx

    @perfx.track
    def train_step(batch):
        with perfx.scope("forward"):
            ...

    for batch in loader:
        with perfx.step():
            loss = train_step(batch)
        perfx.counter("loss", loss)

    result, stats = perfx.profile(train_step, batch)
    print(stats)

Untraced, an annotation costs a call of an empty function. docs/annotations.md describes all of them.
"""
from . import renderers
from ._library import functions as _functions
from ._marks import counter, counter_add, flops, mark, memory, start, step, stop
from ._profile import Profiler, ProfilingError, profile
from ._ranges import scope
from ._result import FunctionStats, ProfileResult
from ._track import track
from .renderers import Csv, File, Json, Markdown, Plain, Renderer, Rich

__version__ = "0.1.0"

#: Whether libperfx was found; without it, annotations do nothing.
available = _functions.found

__all__ = [
    "Csv", "File", "FunctionStats", "Json", "Markdown", "Plain", "ProfileResult", "Profiler",
    "ProfilingError", "Renderer", "Rich", "available", "counter", "counter_add", "flops", "mark",
    "memory", "profile", "renderers", "scope", "start", "step", "stop", "track",
]
