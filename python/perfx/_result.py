# SPDX-License-Identifier: BSD-2-Clause
"""The result of perfx.profile: rows of perfx-trace's JSON report as objects."""
import dataclasses
from typing import Optional

NS_PER_MS = 1e6


def milliseconds(row, key):
    return row[key] / NS_PER_MS if key in row else None


@dataclasses.dataclass(frozen=True)
class FunctionStats:
    """A function or range. Values that were not measured are None."""

    name: str
    total_duration_ms: float
    call_count: int
    avg_duration_ms: Optional[float]
    self_duration_ms: Optional[float] = None
    min_duration_ms: Optional[float] = None
    max_duration_ms: Optional[float] = None
    p50_duration_ms: Optional[float] = None
    p95_duration_ms: Optional[float] = None
    p99_duration_ms: Optional[float] = None
    module: Optional[str] = None

    @classmethod
    def of(cls, row):
        return cls(
            name=row["name"], total_duration_ms=row.get("total_ns", 0) / NS_PER_MS,
            call_count=row["calls"], avg_duration_ms=milliseconds(row, "avg_ns"),
            self_duration_ms=milliseconds(row, "self_ns"),
            min_duration_ms=milliseconds(row, "min_ns"), max_duration_ms=milliseconds(row, "max_ns"),
            p50_duration_ms=milliseconds(row, "p50_ns"), p95_duration_ms=milliseconds(row, "p95_ns"),
            p99_duration_ms=milliseconds(row, "p99_ns"), module=row.get("module"))


class ProfileResult:
    """Statistics of functions and ranges, in descending order of total time. Prints as a table.

    stats      list of FunctionStats
    metadata   dict: process, duration, losses, verdict, …
    report     dict: perfx-trace's whole report (docs/formats.md)
    html()     str: its HTML report; None outside notebooks without Profiler("--capture", FILE)
    """

    def __init__(self, report, pid, html=lambda: None):
        self.report = report
        self.html = html
        rows = [row for process in report.get("processes", ()) if process["pid"] == pid
                for row in process.get("functions", ())]
        self.stats = sorted(map(FunctionStats.of, rows), key=lambda s: -s.total_duration_ms)
        self.metadata = {
            "pid": pid,
            "duration_ms": report["capture"]["duration_ns"] / NS_PER_MS,
            "start_unix_ns": report["capture"]["start_unix_ns"],
            "partial": report["capture"]["partial"],
            "losses": {key: value for key, value in report["losses"].items() if value},
            "estimated_slowdown_percent": report["overhead"].get("estimated_percent"),
            "verdict": report.get("verdict"),
            "tool": "{name} {version}".format(**report["tool"]),
        }

    def render(self, renderer=None):
        """Text, by a renderer of perfx.renderers (default: Plain)."""
        from . import renderers  # pylint: disable=import-outside-toplevel
        return (renderer or renderers.Plain()).render(self)

    @staticmethod
    def columns():
        return [field.name for field in dataclasses.fields(FunctionStats)]

    def to_dict(self, include_metadata=True):
        functions = [dataclasses.asdict(row) for row in self.stats]
        if not include_metadata:
            return {"functions": functions}
        return {"functions": functions, "metadata": dict(self.metadata)}

    def to_dataframe(self):
        """One row per function; needs pandas."""
        import pandas  # pylint: disable=import-outside-toplevel
        return pandas.DataFrame(self.to_dict()["functions"], columns=self.columns())

    def __getitem__(self, name):
        """The first row with this name."""
        for row in self.stats:
            if row.name == name:
                return row
        raise KeyError(name)

    def __contains__(self, name):
        return any(row.name == name for row in self.stats)

    def __iter__(self):
        return iter(self.stats)

    def __len__(self):
        return len(self.stats)

    def __str__(self):
        return self.render()

    def __repr__(self):
        return f"<ProfileResult of {len(self)} functions in {self.metadata['duration_ms']:.1f} ms>"

    def _repr_html_(self):
        from . import _notebook  # pylint: disable=import-outside-toplevel
        page = self.html()
        return page and _notebook.frame(page)

    def _repr_markdown_(self):
        from . import renderers  # pylint: disable=import-outside-toplevel
        return self.render(renderers.Markdown())
