# SPDX-License-Identifier: BSD-2-Clause
"""The HTML report in a browser: no network requests, no errors; tables sort and can be searched, flame
graphs react to clicks and keys."""
import json

import captures
import pytest
from browser import CHROMIUM, Browser
from captures import SECOND
from conftest import run

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium here")

NAMES = ["train_step", "</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>",
         "<!--<script>", "a\"b'c&amp;d", "x" * 300]


def capture(path, names):
    """Function i is called by function i/2, in one call of 1/i seconds."""
    records = [captures.host("<b>h"), captures.process("<i>comm", "<u>cmd")]
    for i, name in enumerate(names, 1):
        records += [captures.function(i, name, "/lib/<s>.so"), captures.context(i, i // 2, i)]
    for i in range(len(names), 0, -1):
        records.append(captures.span(SECOND, SECOND // i, SECOND // i // 2, i))
    records.append(captures.end(3 * SECOND))
    captures.write(path, [records])
    page = path.with_suffix(".html")
    result = run("report", path, "-o", page)
    assert result.returncode == 0, result.stderr
    return page


@pytest.fixture(scope="module")
def browser():
    b = Browser()
    yield b
    b.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return capture(tmp_path_factory.mktemp("html") / "r.perfx", NAMES + [f"fn_{i}" for i in range(20)])


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return capture(tmp_path_factory.mktemp("html") / "large.perfx", [f"at::fn_{i:05}" for i in range(10000)])


def quiet(browser, page):
    assert browser.requests == [f"file://{page}"]
    assert browser.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_asked_and_nothing_is_wrong(browser, page, width, scheme):
    browser.open(page, width, scheme)
    quiet(browser, page)
    assert browser.eval("document.documentElement.scrollWidth") <= width
    light = browser.eval("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")


def test_names_are_text(browser, page):
    """A hostile name is shown unchanged; it creates no element and runs nothing."""
    browser.open(page)
    quiet(browser, page)
    assert browser.eval("document.querySelectorAll('img, b, i, u, s, script:not([type])').length") == 1
    shown = browser.eval("[...document.querySelectorAll('td.name')].map(e => e.textContent)")
    assert set(NAMES) <= set(shown)
    report = json.loads(browser.eval("document.getElementById('report').textContent"))
    assert {f["name"] for f in report["processes"][0]["functions"]} >= set(NAMES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_roofline(browser, tmp_path, scheme):
    """A dot for each function with FLOPs, below the roof at its values, with the name as text."""
    path, page = tmp_path / "roof.perfx", tmp_path / "roof.html"
    names = ["fast", "</title><script>alert(1)</script>", "<b>slow"]
    records = [captures.host(), captures.process("trainer", "t"), captures.peak(10**11, 10**10),
               captures.usage(SECOND, 0)]
    for i, (name, flops) in enumerate(zip(names, (9 * 10**8, 10**7, 10**5)), 1):
        records += [captures.function(i, name, "/lib/m.so"), captures.context(i, 0, i)]
        records += [captures.computed(SECOND + i * SECOND // 10 + j * 10**7, 10**7, i, flops, 10**7)
                    for j in range(10)]
    captures.write(path, [records + [captures.usage(2 * SECOND, SECOND), captures.end(2 * SECOND)]])
    assert run("report", path, "-o", page).returncode == 0
    browser.open(page, 1200, scheme)
    quiet(browser, page)
    titles = browser.eval("[...document.querySelectorAll('.roofline title')].map(e => e.textContent)")
    assert sorted(titles) == sorted(names)
    dots = dict(zip(titles, browser.eval("[...document.querySelectorAll('.roofline circle')].map("
                                         "e => [+e.getAttribute('cx'), +e.getAttribute('cy')])")))
    assert dots["fast"][0] > dots[names[1]][0] > dots["<b>slow"][0]
    assert dots["fast"][1] < dots[names[1]][1] < dots["<b>slow"][1]
    # the roof, with its ridge at 10 FLOP/byte; y grows downwards
    roof = browser.eval("document.querySelector('.roofline .roof').getAttribute('d')")
    flat = float(roof.split("L")[1].split()[1])
    assert roof.count("L") == 2 and all(y > flat for _, y in dots.values())
    assert browser.eval("document.querySelectorAll('.roofline .overhead').length") >= 1
    assert browser.eval("document.querySelectorAll('pre').length") == 0


STEP = "</title><script>alert(3)</script>"


def training(path, durations):
    """A capture with a step for each duration, half of it data, with a product in a range."""
    records = [captures.host(), captures.process("trainer", "t"), captures.peak(10**11, 10**10),
               captures.usage(SECOND, 0), captures.marked(1, "enumerate(DataLoader)#It.__next__"),
               captures.marked(2, "forward", 7), captures.function(3, "mm", "/lib/m.so"),
               captures.marked(4, STEP, 7, True), captures.context(1, 0, 1), captures.context(2, 0, 2),
               captures.context(3, 2, 3), captures.context(4, 0, 4)]
    at, batches = SECOND, []
    for i, duration in enumerate(durations):
        records += [captures.span(at, duration // 2, duration // 2, 1, 1),
                    captures.computed(at + duration // 2, duration // 4, 3, duration, 10**6),
                    captures.span(at + duration // 2, duration // 2, duration // 4, 2, 1),
                    captures.span(at, duration, 0, 4)]
        at += duration
        if i % 2000 == 1999:
            batches, records = [*batches, records], []
    captures.write(path, [*batches, [*records, captures.usage(at, at - SECOND), captures.end(at)]])
    page = path.with_suffix(".html")
    assert run("report", path, "-o", page).returncode == 0
    return page


def of_all(browser, selector, expression):
    return browser.eval(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => {expression})")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_step_chart(browser, tmp_path, scheme):
    """A bar for each step, as high as its duration, divided by phase; the slow step is marked,
    described, and in the table; ranges are in the flame graph with their contents."""
    durations = [100 * 10**6] * 20
    durations[6] = 250 * 10**6
    page = training(tmp_path / "steps.perfx", durations)
    browser.open(page, 1200, scheme)
    quiet(browser, page)
    height = "[...e.querySelectorAll('rect')].map(r => r.height.baseVal.value).reduce((a, b) => a + b)"
    heights = of_all(browser, ".steps g", height)
    assert len(heights) == 20 and heights[6] == max(heights)
    assert heights[6] / heights[0] == pytest.approx(2.5, rel=0.01)
    data, all_of_it = (of_all(browser, f".steps g:nth-of-type(7) rect{kind}", "e.height.baseVal.value")
                       for kind in (".data", ""))
    assert data[0] / sum(all_of_it) == pytest.approx(0.5, rel=0.01)
    assert len(of_all(browser, ".steps .slow", "1")) == 1
    title = of_all(browser, ".steps g:nth-of-type(7) title", "e.textContent")[0]
    assert title.startswith("Step 7: 250 ms") and "data 125 ms" in title and "MFU" in title
    # distinguishable colors, equal in legend and bars
    colours = of_all(browser, ".steps .dot", "getComputedStyle(e).backgroundColor")
    assert len(set(colours)) == 6
    assert of_all(browser, ".steps rect.data", "getComputedStyle(e).fill")[0] == colours[0]
    # each step is in the table, which can be sorted and searched by it
    assert browser.eval("document.body.textContent.includes(%s)" % json.dumps(STEP))
    browser.eval("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    table = "[...document.querySelectorAll('table')].find(t => t.tHead.textContent.trim().startsWith('Step'))"
    rows = f"[...{table}.tBodies[0].rows].map(r => r.cells[0].textContent)"
    assert browser.eval(rows) == [str(i) for i in range(1, 21)]
    browser.eval(f"[...{table}.querySelectorAll('th button')].find(b => b.textContent === 'Duration').click()")
    assert browser.eval(rows)[0] == "7"
    browser.eval("""(() => {
        const search = %s.parentElement.previousElementSibling.querySelector('input');
        search.value = 'slow'; search.dispatchEvent(new Event('input'));
    })()""" % table)
    assert browser.eval(rows) == ["7"]
    names = {label.split(":")[0] for label in of_all(browser, ".flame g", "e.ariaLabel")}
    assert {"forward", "mm"} <= names
    quiet(browser, page)


def test_thousands_of_steps(browser, tmp_path):
    """Steps share bars, so that the page stays small; the slow one is still visible."""
    durations = [10**6] * 5000
    durations[3210] = 4 * 10**6
    page = training(tmp_path / "many.perfx", durations)
    assert page.stat().st_size < 2 << 20
    browser.open(page)
    bars = of_all(browser, ".steps g title", "e.textContent")
    assert 100 < len(bars) <= 220 and bars[-1].startswith("Step 49")
    slow = of_all(browser, ".steps g:has(.slow) title", "e.textContent")
    assert len(slow) == 1 and "longest 4.00 ms" in slow[0]
    first, last = (int(word) for word in slow[0].split(",")[0].split()[1::2])
    assert first <= 3211 <= last
    quiet(browser, page)


def test_a_script_that_got_in_would_not_run(browser, page, tmp_path):
    """The content security policy works even if escaping failed."""
    bad = tmp_path / "bad.html"
    bad.write_text(page.read_text().replace("<main>", "<main><script>document.title = 'run'</script>"
                                            "<img src=//example.org/x onerror=\"document.title = 'run'\">", 1))
    browser.open(bad)
    assert browser.eval("document.title") != "run"
    assert browser.complaints


def column(browser, title):
    return browser.eval("""(() => {
        const table = document.querySelector('table'), heads = [...table.querySelectorAll('th')];
        const at = heads.findIndex(h => h.textContent === %s);
        return [...table.tBodies[0].rows].map(r => r.cells[at].textContent);
    })()""" % json.dumps(title))


def press_head(browser, title):
    browser.eval("[...document.querySelectorAll('th button')].find(b => b.textContent === %s).click()"
                 % json.dumps(title))


def test_sort(browser, large):
    browser.open(large)
    assert len(column(browser, "Function")) == 100
    press_head(browser, "Function")
    assert column(browser, "Function") == [f"at::fn_{i:05}" for i in range(100)]
    press_head(browser, "Function")
    assert column(browser, "Function") == [f"at::fn_{i:05}" for i in range(9999, 9899, -1)]
    press_head(browser, "Self")
    assert column(browser, "Self")[:3] == ["500\u202fms", "250\u202fms", "167\u202fms"]
    press_head(browser, "Self")
    assert column(browser, "Self")[0] == "50.0\u202fµs"
    assert browser.eval("document.querySelector('th[aria-sort]').ariaSort") == "ascending"
    quiet(browser, large)


def test_search(browser, large):
    browser.open(large)
    browser.eval("""(() => {
        const search = document.querySelector('.table').previousElementSibling.querySelector('input');
        search.value = 'FN_0999'; search.dispatchEvent(new Event('input'));
    })()""")
    assert sorted(column(browser, "Function")) == [f"at::fn_0999{i}" for i in range(10)]
    status = browser.eval("document.querySelector('.table').previousElementSibling.textContent")
    assert "10 found" in status and "10000" in status


def boxes(browser):
    return browser.eval("[...document.querySelectorAll('.graph g')].map(g => g.ariaLabel)")


def test_flame_graph(browser, page):
    browser.open(page)
    labels = boxes(browser)
    assert labels[0].startswith("all: ") and any(l.startswith("train_step: ") for l in labels)
    assert "</script><script>alert(1)</script>" in " ".join(labels)
    # a click makes the box as wide as the graph, and keeps the enclosing box to go back to
    browser.eval("[...document.querySelectorAll('.graph g')].find(g => g.ariaLabel.startsWith('train_step'))"
                 ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    wide = browser.eval("[...document.querySelectorAll('.graph g')].filter(g => g.querySelector('rect')"
                        ".width.baseVal.value === document.querySelector('.graph').clientWidth).map(g => g.ariaLabel)")
    assert {w.split(":")[0] for w in wide} == {"all", "train_step"}
    # keys: down to the first callee, which is announced; Escape goes back
    browser.press("ArrowDown")
    assert browser.eval("document.activeElement.ariaLabel") == browser.eval(
        "document.querySelector('.status').textContent")
    browser.press("Escape")
    assert sorted(boxes(browser)) == sorted(labels)
    quiet(browser, page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_untraced_time(browser, tmp_path, scheme):
    """Half of one second in a function that is named like the rest: table and flame graph have the same
    shares of the process's time, and the rest does not look like a function."""
    page = capture(tmp_path / "r.perfx", ["(untraced)"])
    browser.open(page, 1200, scheme)
    half = "document.querySelector('tbody td').textContent"
    assert browser.eval(half) == "(untraced)" and column(browser, "Self %") == ["25.0\u202f%"]
    assert of_all(browser, "tfoot td", "e.textContent")[:3] == ["(untraced)", "75.0\u202f%", "1.50\u202fs"]
    labels = {"all: 2 s, 100 %", "(untraced): 500 ms, 25 %", "(untraced): 1.5 s, 75 %"}
    assert set(boxes(browser)) == labels
    assert of_all(browser, ".graph .rest", "e.ariaLabel") == ["(untraced): 1.5 s, 75 %"]
    fills = of_all(browser, ".graph rect", "getComputedStyle(e).fill")
    assert fills.count(of_all(browser, ".graph .rest rect", "getComputedStyle(e).fill")[0]) == 1
    # traced time alone fills the width, and its share is unchanged
    press = "[...document.querySelectorAll('.tools button')].find(b => b.textContent === 'Untraced time').click()"
    browser.eval(press)
    assert set(boxes(browser)) == {"all: 500 ms, 25 %", "(untraced): 500 ms, 25 %"}
    browser.eval(press)
    assert set(boxes(browser)) == labels
    quiet(browser, page)


def sampled(path, polls=0):
    """A report of five samples: three in a library's function that a line of the program calls, one in that
    line, one in a thread without Python; and of so many in which that line polls."""
    start, evaluate, product, waits = 0x1010, 0x1020, 0x1030, 0x1040
    own, library = captures.PYTHON | 0x10, captures.PYTHON | 0x20
    records = [captures.host(), captures.process("python3", "python3"), captures.usage(SECOND, 0),
               captures.frame(start, "_start", "/usr/bin/python3"),
               captures.frame(evaluate, "_PyEval_EvalFrameDefault", "/usr/bin/python3"),
               captures.frame(product, "sgemm_kernel", "/lib/libopenblas.so.0"),
               captures.frame(own, "<module>", "", "/home/me/train.py", 3),
               captures.frame(library, "forward", "", "/usr/lib/python3/dist-packages/torch/linear.py", 9),
               captures.stack(1, product, library, evaluate, own, start), captures.stack(2, own, start),
               captures.stack(3, product), captures.frame(waits, "sched_yield", "/lib/libc.so.6"),
               captures.stack(4, waits, own, start)]
    records += [captures.sample(SECOND + i, of) for i, of in enumerate((1, 1, 1, 2, 3) + (4,) * polls)]
    captures.write(path, [[*records, captures.usage(2 * SECOND, SECOND), captures.end(2 * SECOND)]])
    page = path.with_suffix(".html")
    assert run("report", path, "-o", page).returncode == 0
    return page


def test_python_only(browser, tmp_path):
    """The button shows and hides native frames; a box shows its share, including callees."""
    page = sampled(tmp_path / "r.perfx")
    browser.open(page, 1280)
    python = {"all: 50 ms, 100 %", "<module> (train.py:3): 40 ms, 80 %", "forward (linear.py:9): 30 ms, 60 %",
              "(outside Python): 10 ms, 20 %"}
    assert set(boxes(browser)) == python
    assert "<module> (train.py:3) 80 %" in of_all(browser, ".graph text", "e.textContent")
    press = "[...document.querySelectorAll('.tools button')].find(b => b.textContent === 'Python only').click()"
    browser.eval(press)
    assert set(boxes(browser)) == {
        "all: 50 ms, 100 %", "_start (python3): 40 ms, 80 %", "<module> (train.py:3): 40 ms, 80 %",
        "_PyEval_EvalFrameDefault (python3): 30 ms, 60 %", "forward (linear.py:9): 30 ms, 60 %",
        "sgemm_kernel (libopenblas.so.0): 30 ms, 60 %", "sgemm_kernel (libopenblas.so.0): 10 ms, 20 %"}
    browser.eval(press)
    assert set(boxes(browser)) == python
    quiet(browser, page)


def test_spinning(browser, tmp_path):
    """Of each box the part that only waits has a colour of its own; a button shows that part alone."""
    browser.open(sampled(tmp_path / "r.perfx", polls=5), 1280)
    assert {"all: 100 ms, 100 %; 50 ms of it spinning", "<module> (train.py:3): 90 ms, 90 %; 50 ms of it spinning",
            "forward (linear.py:9): 30 ms, 30 %"} <= set(boxes(browser))
    widths = of_all(browser, ".graph g:first-child rect", "+e.getAttribute('width')")
    assert widths[1] == widths[0] / 2
    assert len(of_all(browser, ".graph rect.part", "e.textContent")) == 2
    browser.eval("[...document.querySelectorAll('.tools button')].find(b => b.textContent === 'Spinning').click()")
    assert set(boxes(browser)) == {"all: 50 ms, 100 %", "<module> (train.py:3): 50 ms, 100 %"}


def test_own_lines_come_first(browser, tmp_path):
    """The program's lines come first, even if a library's line has most of the time."""
    browser.open(sampled(tmp_path / "r.perfx"), 1280)
    lines = of_all(browser, "td.name", "e.textContent")
    assert lines.index("<module> (train.py:3)") < lines.index("forward (linear.py:9)")


def test_print(browser, page):
    """All sections are open on paper, without buttons."""
    browser.open(page)
    closed = "document.querySelectorAll('details:not([open])').length"
    assert browser.eval(closed) > 0
    browser.eval("dispatchEvent(new Event('beforeprint'))")
    assert browser.eval(closed) == 0
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.eval("getComputedStyle(document.querySelector('.tools')).display") == "none"
    browser.call("Emulation.setEmulatedMedia", media="")


def test_contents_title_and_width(browser, tmp_path):
    """A table of contents with valid links; a title that fits a tab; tables within 1,280 pixels,
    despite longer names and files."""
    path = tmp_path / "wide.perfx"
    records = [captures.host("h"), captures.process("python3", "/usr/bin/python3\x1f/home/me/train.py\x1f--lr\x1f1"),
               captures.function(1, "std::vector<std::map<std::string, unsigned long>>::" + "push_back_" * 20,
                                 "/lib/libtorch_cpu.so.1.13.0.with.a.very.long.name"),
               captures.function(2, "Optimizer.step", "/lib/a.so"), captures.context(1, 0, 1), captures.context(2, 1, 2)]
    records += [captures.span(SECOND * i // 10, SECOND // 12, SECOND // 12, 1 + i % 2) for i in range(1, 20)]
    # it is idle, which is a finding
    records += [captures.usage(SECOND, 0), captures.usage(3 * SECOND, SECOND // 100)]
    captures.write(path, [records + [captures.end(3 * SECOND)]])
    page = path.with_suffix(".html")
    assert run("report", path, "-o", page).returncode == 0
    browser.open(page, 1280)
    quiet(browser, page)
    assert browser.eval("document.title") == "python3 train.py 42 · perfx-trace"
    assert browser.eval("document.documentElement.scrollWidth") <= 1280
    assert browser.eval("[...document.querySelectorAll('.table')].every(t => t.scrollWidth <= t.clientWidth)")
    names = browser.eval("[...document.querySelectorAll('nav a')].map(a => a.textContent)")
    leads = browser.eval("[...document.querySelectorAll('nav a')].map(a => document.querySelector(a.hash).textContent)")
    assert names == leads and names[-1] == "How it was measured" and "Functions" in names
    # the module is not a column, which would be cut, but the row's tooltip; the search finds it
    row = "[...document.querySelectorAll('td.name')].find(e => e.textContent.startsWith('std::vector'))"
    assert browser.eval(f"{row}.title") == "libtorch_cpu.so.1.13.0.with.a.very.long.name"
    assert "Module" not in of_all(browser, "table.wide th", "e.textContent")
    assert browser.eval("getComputedStyle(document.querySelector('table.wide .name')).position") == "sticky"
