# SPDX-License-Identifier: BSD-2-Clause
"""A ProfileResult as text: result.render(Markdown()).

Your own renderer has a method render(result) that returns a str:

    class Names(perfx.renderers.Renderer):
        suffix = ".names"

        def render(self, result):
            return "\\n".join(row.name for row in result.stats)

Names come from the traced program and may contain anything: each renderer escapes the special
characters of its format.
"""
import abc
import csv
import io
import json
import os

COLUMNS = (("Function", None), ("Calls", "call_count"), ("Total ms", "total_duration_ms"),
           ("Self ms", "self_duration_ms"), ("Avg ms", "avg_duration_ms"))
HEADINGS = [heading for heading, _ in COLUMNS]


def printable(text):
    """With control characters escaped, which a terminal or an editor would interpret."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode()
                   for c in text)


def figure(value):
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def cells(result):
    return [[row.name] + [figure(getattr(row, key)) for _, key in COLUMNS[1:]]
            for row in result.stats]


def summary(result):
    text = f"{len(result)} function{'' if len(result) == 1 else 's'} in {result.metadata['duration_ms']:,.1f} ms"
    if result.metadata["partial"]:
        text += "; incomplete: " + (", ".join(f"{key} {value}" for key, value in
                                              result.metadata["losses"].items()) or "see report")
    return text


class Renderer(abc.ABC):
    """The base of all renderers; `suffix` is that of files with its output."""

    suffix = ".txt"

    @abc.abstractmethod
    def render(self, result):
        """The text for a ProfileResult."""


class Plain(Renderer):
    """A table for a terminal or a log."""

    def render(self, result):
        rows = [HEADINGS] + [[printable(row[0])] + row[1:] for row in cells(result)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
        lines = ["  ".join([row[0].ljust(widths[0])] +
                           [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])])
                 for row in rows]
        return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], summary(result)])


class Rich(Renderer):
    """A table with colors for a terminal; needs the package rich."""

    def render(self, result):
        # pylint: disable=import-outside-toplevel
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError as error:
            raise ImportError("renderers.Rich needs rich: pip install rich") from error
        table = Table(caption=summary(result))
        table.add_column(HEADINGS[0], style="cyan", overflow="fold")
        for heading in HEADINGS[1:]:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in cells(result):
            table.add_row(Text(printable(row[0])), *row[1:])
        out = io.StringIO()
        Console(file=out, force_terminal=True, no_color="NO_COLOR" in os.environ).print(table)
        return out.getvalue().rstrip("\n")


class Json(Renderer):
    """All columns, as in ProfileResult.to_dict()."""

    suffix = ".json"

    def __init__(self, indent=2, include_metadata=True):
        self.indent = indent
        self.include_metadata = include_metadata

    def render(self, result):
        return json.dumps(result.to_dict(self.include_metadata), indent=self.indent)


class Csv(Renderer):
    """All columns. Lines end in LF; text that a spreadsheet would read as a formula is preceded by '."""

    suffix = ".csv"

    def __init__(self, delimiter=",", include_header=True):
        self.delimiter = delimiter
        self.include_header = include_header

    @staticmethod
    def field(value):
        if not isinstance(value, str):
            return value
        value = printable(value)
        return "'" + value if value.startswith(("=", "+", "-", "@")) else value

    def render(self, result):
        rows = result.to_dict()["functions"]
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.delimiter, lineterminator="\n")
        if self.include_header:
            writer.writerow(type(result).columns())
        for row in rows:
            writer.writerow(map(self.field, row.values()))
        return out.getvalue()


class Markdown(Renderer):
    """A table for a ticket or a notebook."""

    suffix = ".md"

    @staticmethod
    def escape(text):
        return "".join("\\" + c if c in "\\`*_{}[]<>()#|~!&" else c for c in printable(text))

    def render(self, result):
        lines = [HEADINGS, ["---"] + ["---:"] * (len(HEADINGS) - 1)]
        lines += [[self.escape(row[0])] + row[1:] for row in cells(result)]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return table + "\n\n" + self.escape(summary(result)) + "\n"


class File(Renderer):
    """Writes PREFIX.txt, .json, .csv and .md, or the output of the given renderers; its text is the
    list of paths, one per line."""

    def __init__(self, prefix, *renderers):
        self.prefix = os.fspath(prefix)
        self.renderers = renderers or (Plain(), Json(), Csv(), Markdown())

    def render(self, result):
        paths = []
        for renderer in self.renderers:
            text = renderer.render(result)
            paths.append(self.prefix + renderer.suffix)
            with open(paths[-1], "w", encoding="utf-8", errors="backslashreplace", newline="") as out:
                out.write(text if text.endswith("\n") else text + "\n")
        return "\n".join(paths)
