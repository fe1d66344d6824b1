# SPDX-License-Identifier: BSD-2-Clause
"""perfx-trace serve: metrics of a running program equal the program's own counts; a page in a browser;
reports and captures of the last seconds; hostile clients."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from browser import CHROMIUM, Browser
from conftest import PERFX, TOP, WORKLOADS, Program, run, status, wait_for

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$', re.M)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Server:
    """perfx-trace serve on its own port; it is recording when the constructor returns."""

    def __init__(self, *options, listen="127.0.0.1:0", **popen):
        self.process = subprocess.Popen([PERFX, "serve", "--listen", listen, "--max-overhead", "off", *map(str, options)],
                                        stderr=subprocess.PIPE, text=True, **popen)
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            ready = re.search(r"ready: ((https?)://([^/]*))/", line)
            if ready:
                self.base, self.scheme, self.authority = ready.groups()
                break
        else:
            pytest.fail("not ready: " + "".join(self.lines))
        self.address = ("127.0.0.1", int(self.authority.rsplit(":", 1)[1]))
        self.pid = self.process.pid

    def get(self, path, headers=None, context=None):
        """Status, headers, body."""
        request = urllib.request.Request(self.base + path, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=90, context=context) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def metrics(self, accept=None):
        """{name: [(labels, value)]}; waits for the first snapshot."""
        assert wait_for(lambda: self.get("/metrics")[0] == 200, 60)
        text = self.get("/metrics", {"Accept": accept} if accept else {})[2].decode()
        found = {}
        for name, labels, value in SAMPLE.findall(text):
            found.setdefault(name, []).append((dict(LABEL.findall(labels)), float(value)))
        return found

    def calls(self, function):
        return sum(value for labels, value in self.metrics().get("perfx_function_calls_total", [])
                   if labels["function"] == function)

    def catch_up(self):
        """Waits for a snapshot of everything until now: the second one from here."""
        def recorded():
            return self.metrics()["perfx_capture_duration_seconds"][0][1]

        numbers = {recorded()}
        assert wait_for(lambda: numbers.add(recorded()) or len(numbers) > 2)

    def raw(self, data, timeout=30):
        """The response to these bytes, until the other side closes."""
        with socket.create_connection(self.address, timeout=timeout) as s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            answer = b""
            try:
                while chunk := s.recv(65536):
                    answer += chunk
            except ConnectionResetError:
                pass
            return answer

    def rss_kib(self):
        return int(status(self.pid, "VmRSS").split()[0])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.lines += self.process.stderr.readlines()
        assert self.process.wait(60) == 0, self.lines

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@pytest.fixture(scope="module")
def called():
    """A server for tests that only read, and its workload, which has made its calls once."""
    traced = Program(WORKLOADS / "calls")
    server = Server("-p", traced.pid, "-F", "calls:*")
    traced.go()
    assert wait_for(lambda: server.calls("outer") == 1000)
    yield server
    server.kill()
    traced.kill()


@pytest.fixture
def serve():
    started = []

    def start(*options, **more):
        started.append(Server(*options, **more))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def calls(program, serve):
    """The workload, and a server that counts its calls."""
    traced = program(WORKLOADS / "calls")
    return traced, serve("-p", traced.pid, "-F", "calls:*")


# --- what is counted --------------------------------------------------------------------------------

def test_counts_are_exact_over_the_life_of_a_program(calls):
    traced, server = calls
    last = {}
    for times in (3, 1):
        traced.go(times)
        assert wait_for(lambda: server.calls("outer") % 1000 == 0 and server.calls("outer") > last.get("outer", 0))
        now = server.metrics()
        for labels, value in now["perfx_function_calls_total"]:
            assert value >= last.get(labels["function"], 0), labels
            last[labels["function"]] = value
    server.catch_up()
    assert server.calls("outer") == 4000
    found = {labels["function"]: value for labels, value in server.metrics()["perfx_function_calls_total"]}
    expected = traced.finish()
    assert {name: found.get(name) for name, key in expected if key == "calls"} == {
        name: value for (name, key), value in expected.items() if key == "calls"}
    # like trace, it ends with the traced process
    assert server.process.wait(30) == 0


@pytest.mark.parametrize("end", ["server", "program"])
def test_the_final_totals_are_answered(end, calls):
    """The final totals include the last second, for which there was no snapshot."""
    traced, server = calls
    server.metrics()
    traced.go(2)

    def are_final():
        text = server.get("/metrics")[2].decode()
        return [value for name, labels, value in SAMPLE.findall(text)
                if name == "perfx_function_calls_total" and '"outer"' in labels] == ["2000"]

    if end == "server":
        server.process.send_signal(signal.SIGTERM)
    else:
        traced.finish()
    # until the server notices the end, it answers with older totals
    assert wait_for(are_final, 30)
    assert server.process.wait(30) == 0


def test_times_are_sums_of_the_run(calls):
    traced, server = calls
    traced.go(2)
    server.catch_up()
    found = server.metrics(OPENMETRICS)
    own = sum(value for _, value in found["perfx_function_self_seconds_total"])
    total = {labels["function"]: value for labels, value in found["perfx_function_seconds_total"]}
    assert 0 < total["leaf"] <= total["middle"] + total["outer"]
    assert 0 < own
    assert total["outer"] <= own * 1.001
    assert found["perfx_probe_hits_total"][0][1] > 40000
    assert found["perfx_processes"] == [({}, 1)]


def test_is_what_the_readers_of_both_formats_take(called):
    _, headers, text = called.get("/metrics", {"Accept": OPENMETRICS + ",text/plain;q=0.5"})
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {f.name: f for f in parser.text_string_to_metric_families(text.decode())}
    assert families["perfx_function_calls"].type == "counter"
    assert families["perfx_step_seconds"].type == "summary"
    _, headers, text = called.get("/metrics")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    older = pytest.importorskip("prometheus_client.parser")
    names = {f.name for f in older.text_string_to_metric_families(text.decode())}
    assert names == set(families)


@pytest.mark.skipif(not PROMTOOL, reason="no promtool here (Debian's package prometheus)")
def test_promtool(called):
    result = subprocess.run([PROMTOOL, "check", "metrics"], input=called.get("/metrics")[2], capture_output=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


SCRAPES = """
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: perfx
    static_configs: [{targets: ["%s"]}]
"""


def queried(port, query):
    url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.request.quote(query)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def assert_dashboard_answers(port):
    """Prometheus understands each query of the dashboard; those of what this program has have an answer."""
    dashboard = json.loads((EXAMPLES / "grafana.json").read_text())
    without = {"step", "gpu", "flops", "memory_live", "wait", "losses"}  # nothing of it happens here
    for query in (target["expr"] for panel in dashboard["panels"] for target in panel["targets"]):
        asked = re.sub(r"\$__rate_interval", "30s", re.sub(r"\$(instance|comm)", ".*", query))
        answer = queried(port, asked)
        assert answer or any(f"_{word}" in query for word in without), query


@pytest.mark.long
@pytest.mark.skipif(not PROMETHEUS, reason="no promtool here (Debian's package prometheus)")
def test_prometheus_counts_the_same(calls, tmp_path):
    """It scrapes for a minute, while the program makes calls from time to time."""
    traced, server = calls
    port = free_port()
    (tmp_path / "p.yml").write_text(SCRAPES % server.authority)
    prometheus = subprocess.Popen(
        [PROMETHEUS, f"--config.file={tmp_path}/p.yml", f"--storage.tsdb.path={tmp_path}/data",
         f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
    try:
        until, runs = time.monotonic() + 60, 0
        while time.monotonic() < until:
            traced.go()
            runs += 1
            time.sleep(1)
        assert wait_for(lambda: server.calls("outer") == 1000 * runs)
        time.sleep(3)
        query = 'perfx_function_calls_total{function="%s"}'
        assert [r["value"][1] for r in queried(port, query % "outer")] == [str(1000 * runs)]
        assert [r["value"][1] for r in queried(port, query % "leaf")] == [str(21000 * runs)]
        # a falling counter would look like a reset
        assert [r["value"][1] for r in queried(port, f"resets({query % 'leaf'}[2m])")] == ["0"]
        assert_dashboard_answers(port)
        assert float(queried(port, "count_over_time(up[2m])")[0]["value"][1]) >= 45
        assert queried(port, "min_over_time(up[50s])")[0]["value"][1] == "1"
    finally:
        prometheus.terminate()
        prometheus.wait()


# --- bounds -----------------------------------------------------------------------------------------

FUNCTIONS, PROCESSES = 1200, 50
MANY = """#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#define F(n) __attribute__((noipa)) int many_##n(int x) { return x + n; }
%s
static void all(void) { %s }
int main(void)
{
	char line[64];
	int children;

	setvbuf(stdout, NULL, _IONBF, 0);
	printf("ready %%d\\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "fork %%d", &children) == 1)
			for (int i = 0; i < children; i++)
				if (!fork()) {
					prctl(PR_SET_PDEATHSIG, SIGKILL);
					all();
					for (;;)
						pause();
				}
		if (!strcmp(line, "go\\n"))
			all();
		puts("done");
	}
	return 0;
}
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "many"
    path.with_suffix(".c").write_text(MANY % ("\n".join(f"F({i})" for i in range(FUNCTIONS)),
                                              "".join(f"many_{i}(1);" for i in range(FUNCTIONS))))
    subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-o", path, path.with_suffix(".c")], check=True)
    return path


@pytest.mark.long
def test_functions_and_processes_are_bounded(many, program, serve):
    """The sum has all calls, whether or not a function has its own series."""
    traced = program(many)
    server = serve("-p", traced.pid, "-F", "many:many_*")
    traced.go(3)
    traced.say(f"fork {PROCESSES}")
    assert traced.hear() == "done\n"

    def counted():
        return sum(value for _, value in server.metrics().get("perfx_function_calls_total", []))

    made = FUNCTIONS * (3 + PROCESSES)
    # with so much data, snapshots are rare
    assert wait_for(lambda: counted() == made, 120), (counted(), made)
    found = server.metrics()
    functions = found["perfx_function_calls_total"]
    assert len(functions) <= 1001
    assert "(others)" in {labels["function"] for labels, _ in functions}
    assert found["perfx_processes"] == [({}, 1 + PROCESSES)]
    assert found["perfx_processes_seen_total"] == [({}, 1 + PROCESSES)]
    shown = {labels["pid"] for labels, _ in found["perfx_process_cpu_seconds_total"]}
    assert len(shown) == 1 + PROCESSES
    assert sum(map(len, found.values())) < 15000


# --- the last seconds -------------------------------------------------------------------------------

TYPES = {"text": "text/plain", "md": "text/markdown", "html": "text/html", "json": "application/json",
         "csv": "text/csv", "tsv": "text/tab-separated-values", "line": "text/plain",
         "perfetto": "application/octet-stream", "chrome": "application/json",
         "pprof": "application/octet-stream", "folded": "text/plain", "speedscope": "application/json",
         "openmetrics": "application/openmetrics-text"}


def test_reports_and_captures_of_the_last_seconds(program, serve, tmp_path):
    traced = program(WORKLOADS / "calls")
    left = tmp_path / "perfx-trace.killed"
    left.mkdir(0o700)
    (left / "last.perfx").touch()
    os.utime(left, (1000, 1000))
    server = serve("-p", traced.pid, "-F", "calls:*", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert not left.exists(), "of a tracer that is no more"
    traced.go(2)
    assert wait_for(lambda: server.calls("outer") == 2000)
    for form, kind in TYPES.items():
        code, headers, body = server.get(f"/report?format={form}&seconds=30")
        assert (code, headers.get_content_type()) == (200, kind), body
        assert body, form
    report = json.loads(server.get("/report?format=json&seconds=30")[2])
    assert {f["name"]: f["calls"] for f in report["processes"][0]["functions"]}["outer"] == 2000
    code, headers, body = server.get("/dump?format=json")
    assert (code, headers.get_content_type()) == (200, "application/json"), body
    dump = json.loads(body)
    assert dump["answer"] == "waits" and dump["verdict"].startswith("WAITS FOR pipe:[")
    assert [t["syscall"] for p in dump["processes"] for t in p["threads"] if t["tid"] == traced.pid] == ["read"]
    code, headers, body = server.get("/dump")
    assert headers.get_content_type() == "text/plain" and body.decode().startswith("WAITS FOR pipe:[")
    code, _, body = server.get("/capture?seconds=1m")
    assert code == 400 and body.decode().count("\n") == 1
    code, _, body = server.get("/capture?last=10")
    assert code == 400 and body == b"last: no such argument: seconds\n"
    time.sleep(2.5)
    code, headers, body = server.get("/capture?seconds=1")
    assert code == 200
    capture = tmp_path / "last.perfx"
    capture.write_bytes(body)
    replayed = json.loads(run("report", capture, "-f", "json").stdout)
    assert 1e9 <= replayed["capture"]["duration_ns"] < 2.5e9
    assert not any(f["calls"] for f in replayed["processes"][0]["functions"])
    code, headers, body = server.get("/capture")
    assert code == 200 and headers["Content-Disposition"] == 'attachment; filename="last.perfx"'
    capture.write_bytes(body)
    replayed = json.loads(run("report", capture, "-f", "json").stdout)
    assert {f["name"]: f["calls"] for f in replayed["processes"][0]["functions"]}["outer"] == 2000
    # the recording has continued
    traced.go()
    assert wait_for(lambda: server.calls("outer") == 3000)
    assert [path.name for path in tmp_path.iterdir()] == ["last.perfx"]


# --- access control ---------------------------------------------------------------------------------

def refused(*options):
    result = run("serve", "-p", os.getpid(), *options)
    return result.returncode, result.stderr


def test_another_address_needs_a_token_or_tls(tmp_path):
    open_file, short = tmp_path / "open", tmp_path / "short"
    open_file.write_text("0123456789abcdef\n")
    open_file.chmod(0o644)
    short.write_text("short\n")
    short.chmod(0o600)
    code, error = refused("--listen", "0.0.0.0:0")
    assert code == 2 and "other machines can reach this address: add --token-file" in error
    code, error = refused("--token-file", open_file)
    assert code == 2 and "everybody can read it" in error
    code, error = refused("--token-file", short)
    assert code == 2 and "no token of 16" in error
    code, error = refused("--listen", "9477")
    assert code == 2 and "not ADDRESS:PORT" in error
    code, error = refused("--tls-cert", open_file)
    assert code == 2 and "need each other" in error
    with socket.create_server(("127.0.0.1", 0)) as other:
        code, error = refused("--listen", "127.0.0.1:%d" % other.getsockname()[1])
        assert code == 1 and "another program listens there" in error


def test_a_token_opens_another_address(program, serve, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123\n")
    token.chmod(0o640)
    traced = program(WORKLOADS / "calls")
    server = serve("-p", traced.pid, "-F", "calls:*", "--token-file", token, listen="0.0.0.0:0")
    server.base = f"http://127.0.0.1:{server.address[1]}"
    for headers in ({}, {"Authorization": "Bearer 0123456789abcdef0124"}, {"Authorization": "Basic Ojo6"}):
        for path in ("/", "/metrics", "/nothing"):
            code, answer, _ = server.get(path, headers)
            assert code == 401 and answer["WWW-Authenticate"].startswith("Basic ")
    good = {"Authorization": "Bearer 0123456789abcdef0123"}
    assert server.get("/healthz", good)[0] == 200
    # with a token, names in Host do not matter
    assert server.get("/healthz", good | {"Host": "node3.example.org"})[0] == 200


def test_tls(program, serve, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    key.chmod(0o600)
    traced = program(WORKLOADS / "calls")
    server = serve("-p", traced.pid, "-F", "calls:*", "--tls-cert", cert, "--tls-key", key)
    assert server.scheme == "https"
    assert server.get("/healthz", context=ssl.create_default_context(cafile=cert))[0] == 200
    assert server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")[:5] != b"HTTP/"
    cert.write_text("nothing\n")
    code, error = refused("--tls-cert", cert, "--tls-key", key)
    assert code == 2 and "cannot serve" in error


# --- hostile clients --------------------------------------------------------------------------------

def code_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


REFUSED = [
    (b"GET /../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
    (b"GET /metrics HTTP/1.1\r\nHost: evil.example.org\r\n\r\n", 421),
    (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example.org:80\r\n\r\n", 421),
    (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n", 405),
    (b"PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 405),
    (b"BREW /coffee HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    (b"GET /report?format=../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /report?seconds=-1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /report?seconds=1e9 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /report?\xff\x00=%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /metrics?a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
]


@pytest.mark.long
def test_an_idle_connection_is_closed(called):
    """A client that sends a part of a request, and then nothing."""
    began = time.monotonic()
    called.raw(b"GET /metrics HTTP/1.1\r\nHost: ")
    assert 8 < time.monotonic() - began < 25


def test_hostile_requests_are_refused(called):
    server = called
    for request, code in REFUSED:
        assert code_of(server.raw(request)) == code, request
    assert code_of(server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n")) in (
        None, 400, 413, 414, 431)
    assert code_of(server.raw(b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")) in (
        None, 400, 413, 414, 431)
    assert server.raw(b"\x16\x03\x01\x00\x00" * 100 + b"\r\n\r\n")[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.0 400")
    assert server.get("/healthz")[0] == 200


def crowd(server, count):
    connection = None
    for i in range(count):
        connection = http.client.HTTPConnection(*server.address, timeout=30)
        connection.request("GET", ("/metrics", "/live.json", "/", "/nothing")[i % 4])
        connection.getresponse().read()
        connection.close()


@pytest.mark.parametrize("count", [1000, pytest.param(10000, marks=pytest.mark.long)])
def test_requests_leave_nothing_behind(called, count):
    server = called
    before = server.descriptors()
    crowd(server, 200)
    assert wait_for(lambda: server.descriptors() <= before + 1)
    rss = server.rss_kib()
    crowd(server, count)
    assert wait_for(lambda: server.descriptors() <= before + 1)
    assert server.rss_kib() < rss + 8192


@pytest.mark.long
def test_slow_clients_are_shown_out(calls):
    """They send a byte from time to time, so they are never idle for long."""
    _, server = calls
    assert wait_for(lambda: server.get("/metrics")[0] == 200)
    before = server.descriptors()
    slow = [socket.create_connection(server.address, timeout=30) for _ in range(30)]
    gone, until = set(), time.monotonic() + 40
    for s in slow:
        s.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    # others are served meanwhile
    assert server.get("/healthz")[0] == 200
    while len(gone) < len(slow) and time.monotonic() < until:
        time.sleep(1)
        for s in slow:
            try:
                s.sendall(b"x")
                s.setblocking(False)
                if s in gone or s.recv(1) == b"":
                    gone.add(s)
            except BlockingIOError:
                pass
            except OSError:
                gone.add(s)
    for s in slow:
        s.close()
    assert len(gone) == len(slow)
    assert server.get("/healthz")[0] == 200
    assert wait_for(lambda: server.descriptors() <= before + 1)


# --- the page ---------------------------------------------------------------------------------------

@pytest.mark.some(1)
@pytest.mark.skipif(not CHROMIUM, reason="no chromium here")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_lives(calls, scheme):
    """Charts and tables of this recording, in both color schemes; only this server gets requests."""
    traced, server = calls
    traced.go(2)
    assert wait_for(lambda: server.calls("outer") == 2000)
    browser = Browser()
    try:
        browser.open(server.base + "/", 1200, scheme)
        assert wait_for(lambda: traced.go() or "outer" in browser.eval("document.getElementById('tables').textContent"), 20)
        assert wait_for(lambda: traced.go() or browser.eval(
            "document.querySelectorAll('.series:not([hidden]) path[d]').length"), 20)
        # the scale of each chart begins at 0
        scales = browser.eval("[...document.querySelectorAll('.series:not([hidden]) .scale')]"
                              ".map(e => [...e.children].map(mark => mark.textContent))")
        assert scales and all(len(marks) == 3 and marks[0] != "0" and marks[2] == "0" for marks in scales)
        assert "recording for" in browser.eval("document.getElementById('state').textContent")
        assert {url.removeprefix(server.base) for url in browser.requests} <= {"/", "/live.json", "/favicon.ico"}
        assert not [c for c in browser.complaints if "favicon" not in json.dumps(c)]
        assert browser.eval("document.documentElement.scrollWidth") <= 1200
        light = browser.eval("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert light == (scheme == "light")
        # sorting survives the next second
        browser.eval("[...document.querySelectorAll('#tables th button')].find(b => b.textContent === 'Function').click()")
        before = browser.eval("document.getElementById('state').textContent")
        assert wait_for(lambda: browser.eval("document.getElementById('state').textContent") != before)
        names = browser.eval("[...document.querySelectorAll('#tables section:nth-of-type(2) td.name')].map(e => e.textContent)")
        assert names == sorted(names)
    finally:
        browser.close()


# --- shipped files ----------------------------------------------------------------------------------

EXAMPLES = TOP / "docs/examples"


def test_the_dashboard_asks_for_what_there_is(called):
    described = set(re.findall(r"^# TYPE (\w+)", called.get("/metrics")[2].decode(), re.M))
    described |= {"perfx_step_seconds_sum", "perfx_step_seconds_count"}
    # these have a description only if there is a GPU
    described |= {"perfx_gpu_utilization_ratio", "perfx_gpu_memory_used_bytes"}
    dashboard = json.loads((EXAMPLES / "grafana.json").read_text())
    asked = {name for panel in dashboard["panels"] for target in panel["targets"]
             for name in re.findall(r"perfx_\w+", target["expr"])}
    assert asked <= described, asked - described


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
@pytest.mark.parametrize("name", ["perfx-trace.service", "perfx-trace@.service"])
def test_the_unit_is_one(name, tmp_path):
    unit = tmp_path / name
    unit.write_text((EXAMPLES / name).read_text().replace("/usr/local/bin/perfx-trace", PERFX))
    instance = str(unit).replace("@.", "@python3.")
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", instance], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
