# SPDX-License-Identifier: BSD-2-Clause
"""perfx.profile in a notebook: a real kernel runs the cells, a real browser shows the page."""
import re

import pytest
from browser import CHROMIUM, Browser
from conftest import PERFX, TOP

PROFILE = """
import time, perfx
def work():
    with perfx.scope("<b>part</b>"):
        time.sleep(1.2)
_, stats = perfx.Profiler("--no-calibrate").profile(work)
"""
INSIDE = "document.querySelector('iframe').srcdoc"


@pytest.mark.long
def test_the_report_is_shown_below_the_cell(tmp_path, monkeypatch):
    if not CHROMIUM:
        pytest.skip("no chromium: apt-get install chromium")
    nbformat = pytest.importorskip("nbformat", reason="no nbconvert: apt-get install python3-nbconvert python3-ipykernel")
    client, nbconvert = pytest.importorskip("nbclient"), pytest.importorskip("nbconvert")
    monkeypatch.setenv("PYTHONPATH", str(TOP / "python"))
    monkeypatch.setenv("PERFX_TRACE", PERFX)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (PROFILE, "stats")])
    client.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (progress,), (shown,) = (cell.outputs for cell in book.cells)
    assert re.fullmatch(r"perfx: attaching \d+ s, recording [1-9]\d* s, making the report \d+ s", progress.data["text/plain"])
    assert shown.data["text/markdown"].startswith("| Function | Calls |")

    page = tmp_path / "book.html"
    page.write_text(nbconvert.HTMLExporter().from_notebook_node(book)[0])
    browser = Browser()
    try:
        browser.open(page)
        assert browser.eval("document.querySelectorAll('iframe').length") == 1
        # the same page without the sandbox, to look inside it
        (tmp_path / "report.html").write_text(browser.eval(INSIDE))
        browser.open(tmp_path / "report.html")
        assert "<b>part</b>" in browser.eval("document.body.innerText") and not browser.complaints
    finally:
        browser.close()
