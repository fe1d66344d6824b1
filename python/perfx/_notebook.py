# SPDX-License-Identifier: BSD-2-Clause
"""In a notebook: a report below the cell, and a line of progress while the tracer records."""
import html
import sys
import threading
import time


def is_notebook():
    """Is this a kernel, which has a page to write to, and not IPython in a terminal?"""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython and ipython.get_ipython(), "kernel")


def frame(page):
    """The page in a frame of its own, so that neither its styles nor its scripts meet the notebook's."""
    return (f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="perfx-trace report" '
            'style="width: 100%; height: 40em; box-sizing: border-box; border: 1px solid #8888; resize: vertical">'
            '</iframe>')


class Progress:
    """A line like "perfx: attaching 1 s, recording 12 s", renewed each second. Outside notebooks it shows nothing,
    because it would mix with what the program prints."""

    def __init__(self):
        self.ended = threading.Event()
        self.renewer = self.line = None
        self.parts = []  # (name, when it began)
        self.begin("attaching")

    def begin(self, part):
        self.parts.append((part, time.monotonic()))

    def text(self):
        ends = [began for _, began in self.parts[1:]] + [time.monotonic()]
        return {"text/plain": "perfx: " + ", ".join(
            f"{part} {end - began:.0f} s" for (part, began), end in zip(self.parts, ends))}

    def __enter__(self):
        if is_notebook():
            self.line = sys.modules["IPython"].display.display(self.text(), raw=True, display_id=True)
            self.renewer = threading.Thread(target=self.renew, name="perfx-progress", daemon=True)
            self.renewer.start()
        return self

    def renew(self):
        while not self.ended.wait(1):
            self.line.update(self.text(), raw=True)

    def __exit__(self, *error):
        if self.line:
            self.ended.set()
            self.renewer.join()
            self.line.update(self.text(), raw=True)
        return False
