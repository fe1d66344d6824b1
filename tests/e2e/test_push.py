# SPDX-License-Identifier: BSD-2-Clause
"""Profiles reach a receiver that restarts, refuses, fails and is slow: each once, or it is counted as dropped."""
import gzip
import http.server
import json
import re
import shutil
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse

import captures
import pytest
from captures import SECOND
from conftest import PERFX, WORKLOADS, Program, run
from test_tools import asked, needs

CALLS = 5


class Receiver:
    """Answers by the list of statuses, then 200; accepted: (path, headers, body) of what was answered 2xx."""

    def __init__(self, answers=(), port=0, delay=0.0, tls=None):
        self.answers, self.accepted, self.asked, outer = list(answers), [], 0, self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked += 1
                time.sleep(delay)
                status = outer.answers.pop(0) if outer.answers else 200
                if status == 0:  # dies before it answers
                    self.connection.close()
                    return
                if status < 300:
                    outer.accepted.append((self.path, dict(self.headers), body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("push") / "run.perfx"
    records = [captures.host(), captures.process("trainer", "t"), captures.function(1, "outer", "/lib/f"),
               captures.function(2, "inner", "/lib/f"), captures.context(1, 0, 1), captures.context(2, 1, 2)]
    for i in range(CALLS):
        records += [captures.span(SECOND + i * 1000, 100, 100, 2, depth=1),
                    captures.span(SECOND + i * 1000, 400, 300, 1)]
    captures.write(path, [[*records, captures.end(2 * SECOND)]])
    return path


def push(capture, spool, url, *more):
    return run("export", capture, "--push", url, "--spool", spool, *more)


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def left(spool):
    return sorted(file.name for file in spool.iterdir() if file.suffix == ".request")


def test_through_failures(capture, tmp_path):
    """Refused connections, 503, 429 and a death before the answer: sent once in the end. 400 is final."""
    receiver = Receiver([503, 0, 429])
    result = push(capture, tmp_path / "spool", f"http://127.0.0.1:{receiver.port}")
    assert (result.returncode, len(receiver.accepted), receiver.asked) == (0, 1, 4), result.stderr
    assert "1 requests sent\n" in result.stderr and "trying again" in result.stderr
    path, headers, body = receiver.accepted[0]
    assert (path, headers["Content-Type"]) == ("/v1development/profiles", "application/x-protobuf")
    assert run("export", capture, "-f", "otlp", "-o", tmp_path / "r.otlp").returncode == 0
    assert gzip.decompress(body) == (tmp_path / "r.otlp").read_bytes()
    assert not left(tmp_path / "spool")
    receiver.answers = [400]
    result = push(capture, tmp_path / "spool", f"http://127.0.0.1:{receiver.port}")
    assert result.returncode == 1 and "1 refused (the receiver answers 400)" in result.stderr
    assert not left(tmp_path / "spool") and len(receiver.accepted) == 1
    receiver.stop()


def test_spool_outlives_program_and_receiver(capture, tmp_path):
    """Killed while nobody listens; the next start sends what is left, the oldest first, to a slow receiver."""
    spool, probe = tmp_path / "spool", Receiver()
    probe.stop()
    for count in (1, 2):
        p = subprocess.Popen([PERFX, "export", str(capture), "--push", f"http://127.0.0.1:{probe.port}/ingest",
                              "--spool", str(spool)], stderr=subprocess.PIPE, text=True)
        assert "trying again" in p.stderr.readline()
        if count == 2:
            other = push(capture, spool, "http://127.0.0.1:9")
            assert other.returncode == 1 and "another perfx-trace uses it" in other.stderr
            p.send_signal(signal.SIGINT)
            assert f"{count} left in" in p.communicate()[1] and p.returncode == 1
        else:
            p.kill()
            p.wait()
        assert len(left(spool)) == count
    receiver = Receiver(port=probe.port, delay=0.1)
    result = push(capture, spool, f"http://127.0.0.1:{probe.port}/ingest")
    receiver.stop()
    assert result.returncode == 0 and "3 requests sent\n" in result.stderr and not left(spool)
    assert len(receiver.accepted) == 3
    path, headers, body = receiver.accepted[0]
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(path).query))
    assert query["format"] == "pprof" and int(query["until"]) > int(query["from"])
    assert re.fullmatch(r"trainer\{host=[^,]+,pid=\d+\}", query["name"]), query
    boundary = re.search("boundary=(.*)", headers["Content-Type"])[1].encode()
    parts = dict((re.search(b'name="([a-z_]+)"', head)[1], content[:-2]) for head, _, content in (
        part.partition(b"\r\n\r\n") for part in body.split(b"--" + boundary)[1:-1]))
    assert json.loads(parts[b"sample_type_config"])["time"]["units"] == "nanoseconds"
    assert b"outer" in gzip.decompress(parts[b"profile"])


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl here")
def test_https(capture, tmp_path, monkeypatch):
    """A certificate of an authority that is not known is no receiver's: nothing is sent. SSL_CERT_FILE names it."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key", "-out",
                    tmp_path / "cert", "-subj", "/CN=r", "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                   capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    receiver = Receiver(tls=tls)
    url, spool = f"https://127.0.0.1:{receiver.port}", tmp_path / "spool"
    p = subprocess.Popen([PERFX, "export", str(capture), "--push", url, "--spool", str(spool)],
                         stderr=subprocess.PIPE, text=True)
    assert "certificate" in p.stderr.readline()
    p.kill()
    p.communicate()
    assert not receiver.asked and len(left(spool)) == 1
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
    result = push(capture, spool, url)
    receiver.stop()
    assert result.returncode == 0 and len(receiver.accepted) == 2, result.stderr


def test_bound_of_the_spool(capture, tmp_path):
    """The oldest are dropped, and counted; the bound holds."""
    spool, bound = tmp_path / "spool", 1 << 16
    spool.mkdir()
    for i in range(10):
        (spool / f"{i:020}.request").write_bytes(b"\nContent-Type: text/plain\n\n" + bytes(10000))
    receiver = Receiver(answers=[503] * 2)
    result = push(capture, spool, f"http://127.0.0.1:{receiver.port}", "--spool-size", "64K")
    receiver.stop()
    dropped, sent = (int(re.search(rf"(\d+) {what}", result.stderr)[1]) for what in ("dropped", "requests sent"))
    assert result.returncode == 1 and dropped + sent == 11 and len(receiver.accepted) == sent
    assert dropped >= 4 and receiver.accepted[-1][1]["Content-Type"] == "application/x-protobuf"
    assert sum(len(body) for _, _, body in receiver.accepted) <= bound


@needs("opentelemetry.proto.profiles.v1development")
def test_otlp_is_the_report(capture, tmp_path):
    """The package of PyPI decodes it: times by stack are the report's, every index is in its table."""
    assert run("export", capture, "-f", "otlp", "-o", tmp_path / "r").returncode == 0
    found = asked("opentelemetry.proto.profiles.v1development", """
import json, sys
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest
request = ExportProfilesServiceRequest.FromString(open(sys.argv[1], "rb").read())
d, out = request.dictionary, []
whole = request.SerializeToString()
request.DiscardUnknownFields()
assert request.SerializeToString() == whole
for table in (d.mapping_table, d.location_table, d.function_table, d.link_table, d.attribute_table, d.stack_table):
    assert table[0] == type(table[0])()
assert d.string_table[0] == ""
for r in request.resource_profiles:
    labels = {a.key: a.value.string_value for a in r.resource.attributes}
    for profile in r.scope_profiles[0].profiles:
        assert len(profile.profile_id) == 16
        for s in profile.samples:
            names = [d.string_table[d.function_table[d.location_table[i].lines[0].function_index].name_strindex]
                     for i in d.stack_table[s.stack_index].location_indices]
            out.append([d.string_table[profile.sample_type.type_strindex],
                        d.string_table[profile.sample_type.unit_strindex], names, list(s.values)])
print(json.dumps([labels, out, profile.time_unix_nano, profile.duration_nano]))
""", tmp_path / "r")
    report = json.loads(run("report", capture, "-f", "json").stdout)
    self_ns = {f["name"]: f["self_ns"] for f in report["processes"][0]["functions"]}
    assert found[0]["service.name"] == "trainer" and found[0]["host.name"] and found[0]["process.pid"]
    assert sorted(found[1]) == [["time", "nanoseconds", ["inner", "outer"], [self_ns["inner"]]],
                                ["time", "nanoseconds", ["outer"], [self_ns["outer"]]]]
    assert found[2:] == [report["capture"]["start_unix_ns"], report["capture"]["duration_ns"]]


def test_serve_pushes_and_never_waits(tmp_path):
    """The receiver is down, then back: all that was spooled arrives once, while the recording goes on."""
    probe, spool = Receiver(), tmp_path / "spool"
    probe.stop()
    traced = Program(WORKLOADS / "calls")
    t = subprocess.Popen([PERFX, "serve", "-p", str(traced.pid), "--no-calibrate", "--listen", "127.0.0.1:0", "-F",
                          "calls:*", "--push", f"http://127.0.0.1:{probe.port}", "--push-every", "500ms",
                          "--spool", str(spool)], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: spool.exists() and len(left(spool)) >= 2)
        receiver = Receiver(port=probe.port)
        wait_for(lambda: len(receiver.accepted) >= 4)
        t.send_signal(signal.SIGINT)
        stderr = t.communicate(timeout=60)[1]
    finally:
        t.kill()
        traced.kill()
    receiver.stop()
    sent = int(re.search(r"(\d+) requests sent\n", stderr)[1])
    assert t.returncode == 0 and sent == len(receiver.accepted) and not left(spool)
    assert len({body for _, _, body in receiver.accepted}) == sent, "each once"
