# SPDX-License-Identifier: BSD-2-Clause
"""Bad input: one clear line, the documented exit code, nothing traced, no harm."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess

import pytest
from conftest import PERFX, WORKLOADS, Program, run, run_unprivileged, total


def one_line(result, code, *words):
    assert result.returncode == code, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("perfx-trace: ")
    for word in words:
        assert word in lines[0], lines[0]
    return lines[0]


def kernel_thread():
    for pid in sorted(int(p) for p in os.listdir("/proc") if p.isdigit()):
        try:
            with open(f"/proc/{pid}/stat", encoding="latin1") as stat:
                flags = int(stat.read().rsplit(")", 1)[1].split()[6])
        except OSError:
            continue
        if flags & 0x00200000:  # PF_KTHREAD
            return pid
    return None


def test_no_such_pid():
    one_line(run("-p", 4194303), 1, "4194303")


def test_no_such_name():
    one_line(run("-p", "no-such-program"), 1, "no-such-program")


@pytest.mark.parametrize("pid", ["0", "99999999999"])
def test_not_a_pid(pid):
    one_line(run("-p", pid), 2, pid)


def test_kernel_thread():
    pid = kernel_thread()
    if pid is None:
        pytest.skip("no kernel thread is visible here")
    one_line(run("-p", pid), 1, "kernel thread")


def test_own_pid():
    # exec turns the shell into perfx-trace, so its pid is the tracer's
    result = subprocess.run(["sh", "-c", f'exec "{PERFX}" -p $$'], capture_output=True, text=True)
    one_line(result, 1, "itself")


@pytest.mark.parametrize("arguments, word", [
    (["-p", "1", "-d", "soon"], "soon"),
    (["-p", "1", "-d", "0"], "0"),
    (["-p", "1", "-d", "-3"], "-3"),
    (["-p", "1", "--ring-size", "many"], "many"),
    (["-p", "1", "--link", "tape"], "tape"),
    (["-p", "1", "--return", "never"], "never"),
    (["-p", "1", "-F", "x:/(/"], "x:/(/"),
    (["-p", "1", "-f", "docx"], "docx"),
    (["-p", "1", "-o", "/tmp/report.docx"], "/tmp/report.docx"),
    (["-p", "1", "word"], "word"),
    (["record", "-p", "1"], "-o"),
    (["report"], "FILE"),
    (["run"], "CMD"),
    (["run", "-p", "1", "--", "true"], "-p"),
    (["-p", "1", "--flops-rules", "/dev/zero"], "neither a file nor a pipe"),
    (["-p", "1", "--template", "/dev/zero"], "neither a file nor a pipe"),
    (["-p", "1", "--template", "MISSPELT"], "similar: verdict"),
    (["-p", "1", "--process", "4194303"], "--process 4194303"),
    (["-p", "1", "--no-children", "--process", "nope"], "--process nope"),
    (["-a", "-p", "1"], "-a"),
])
def test_usage(arguments, word, tmp_path):
    (tmp_path / "MISSPELT").write_text("{{vedict}}")
    one_line(run(*arguments, cwd=tmp_path), 2, word)


@pytest.mark.parametrize("by", ["pid", "name"])
def test_another_users_process_needs_ptrace(by, tmp_path):
    """Without CAP_SYS_PTRACE its maps are readable, but the files that it maps are not."""
    napper = shutil.copy(shutil.which("sleep"), tmp_path / "elses-nap")
    for folder in (tmp_path, *tmp_path.parents):
        folder.chmod(folder.stat().st_mode | 0o11)
    with subprocess.Popen([napper, "60"], user="nobody", group="nogroup", extra_groups=[]) as p:
        try:
            target = p.pid if by == "pid" else "elses-nap"
            result = subprocess.run(["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", PERFX, "-p", str(target),
                                     "-d", "200ms"], capture_output=True, text=True, timeout=60)
        finally:
            p.kill()
    one_line(result, 77, "CAP_SYS_PTRACE")


@pytest.mark.parametrize("verb", [["report"], ["export", "-f", "folded"], ["diff", "/dev/zero"], ["merge", "/dev/zero"]])
@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/tty", "fifo"])
def test_a_capture_is_a_regular_file(verb, kind, tmp_path):
    """A FIFO is not waited for, and a device is not read endlessly."""
    os.mkfifo(tmp_path / "fifo")
    result = run(verb[0], *verb[1:], kind, *(["-o", "x.perfx"] if verb[0] == "merge" else []), cwd=tmp_path, timeout=20)
    assert result.returncode in (1, 2)
    assert len(result.stderr.splitlines()) == 1
    assert "regular file" in result.stderr or "No such device" in result.stderr


@pytest.mark.parametrize("verb", ["report", "export", "diff"])
def test_rules_of_flops_are_no_input_of_a_report(verb):
    one_line(run(verb, "x.perfx", "--flops-rules", "/dev/zero"), 2, "--flops-rules is an option of")


@pytest.mark.parametrize("option, text", [
    ("--rules", "# a\nHotLoop.share = 1\n\0x\n"), ("--flops-rules", "# a\nx:f flops = 1\n# \0\n"),
    ("--template", "a\nb\n{{verdict}}\0"),
])
def test_a_nul_is_a_mistake(option, text, tmp_path):
    """Otherwise the text after the NUL would be ignored."""
    (tmp_path / "text").write_text(text)
    one_line(run("-p", "1", option, tmp_path / "text"), 2, "line 3 has a NUL byte")


def test_messages_are_harmless(tmp_path):
    """C0 and C1 control characters, direction marks and invalid UTF-8 are escaped."""
    name = b"a\xc2\x9b31m\xe2\x80\xae\xe2\x81\xa6\xd8\x9c\xe2\x80\x8f\x9b\x1b[2J\xff\xc3\xa9"
    result = subprocess.run([PERFX, "report", name], capture_output=True, cwd=tmp_path)
    shown = result.stderr.decode()
    assert "a\\xc2\\x9b31m\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xd8\\x9c\\xe2\\x80\\x8f\\x9b\\x1b[2J\\xff\u00e9: " in shown
    assert all(c == "\n" or c.isprintable() for c in shown)


@pytest.mark.parametrize("option", ["--flops-rules", "--template"])
def test_a_file_without_bound(option, tmp_path):
    """It is not read to its end; a pipe, as from <(…), is."""
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"x")
    one_line(run("-p", "1", option, tmp_path / "large"), 2, "more than 1 MiB")
    (tmp_path / "none").write_text("")
    result = subprocess.run(["bash", "-c", f"'{PERFX}' -p 4194303 {option} <(echo 'x:f flops = 1')"],
                            capture_output=True, text=True)
    one_line(result, 1, "no process 4194303")


def test_process_that_was_not_traced_costs_no_measurement(program, tmp_path):
    """A child of that name might still have come, so the report is made of all processes."""
    p = program(WORKLOADS / "calls")
    result = run("-p", p.pid, "-d", "100ms", "--no-calibrate", "-f", "json", "--process", "nope")
    assert result.returncode == 2 and "the report has all" in result.stderr
    assert [q["pid"] for q in json.loads(result.stdout)["processes"]] == [p.pid]


def test_a_report_larger_than_files_may_be(program, tmp_path):
    """ulimit -f: an error like a full disk, no SIGXFSZ in the tracer or the traced program."""
    p = program(WORKLOADS / "calls")
    result = subprocess.run(["bash", "-c", f"ulimit -f 4; '{PERFX}' -p {p.pid} -d 100ms --no-calibrate "
                             f"-o '{tmp_path}/x.html'"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "File too large" in result.stderr, result.stderr
    assert "How it was measured" in result.stdout


def test_three_capabilities_are_enough(program, tmp_path):
    """The capabilities in docs/troubleshooting.md suffice: another user's process is traced. The limit
    of open files is raised as far as that user may, and no hard limit is lowered."""
    p = program(WORKLOADS / "calls")
    held = "-all,+bpf,+perfmon,+sys_ptrace"
    tmp_path.chmod(0o755)
    perfx = shutil.copy(PERFX, "/tmp/perfx-trace-capabilities")
    try:
        tracer = subprocess.Popen(
            ["prlimit", "--nofile=256:1000", "setpriv", "--reuid=nobody", "--regid=nogroup",
             "--clear-groups", f"--inh-caps={held}", f"--ambient-caps={held}",
             f"--bounding-set={held}", perfx, "-p", str(p.pid), "-F", "calls:outer", "-f", "json",
             "--no-calibrate"], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while ": tracing " not in tracer.stderr.readline():
            assert tracer.poll() is None
        with open(f"/proc/{tracer.pid}/limits", encoding="utf8") as limits:
            files = next(line.split()[3:5] for line in limits if line.startswith("Max open files"))
        p.go()
        tracer.send_signal(signal.SIGINT)
        out, err = tracer.communicate(timeout=60)
    finally:
        os.unlink(perfx)
    assert tracer.returncode == 0, err
    assert total(json.loads(out), "outer", "calls") == 1000
    assert files == ["1000", "1000"]
    p.finish()


@pytest.mark.parametrize("option", ["--nonsense", "-d"])
def test_unknown_option(option):
    result = run("-p", "1", option)
    assert result.returncode == 2
    assert result.stderr.startswith("perfx-trace: ")


def test_output_is_a_directory(program, tmp_path):
    p = program(WORKLOADS / "calls")
    (tmp_path / "x.md").mkdir()
    one_line(run("-p", p.pid, "-o", tmp_path / "x.md"), 1, "directory")


def test_output_cannot_be_written(program, tmp_path):
    p = program(WORKLOADS / "calls")
    one_line(run("-p", p.pid, "-o", tmp_path / "none" / "x.md"), 1, str(tmp_path / "none" / "x.md"))


def test_output_link_is_not_followed(program, tmp_path):
    p = program(WORKLOADS / "calls")
    (tmp_path / "secret").write_text("precious")
    (tmp_path / "x.md").symlink_to(tmp_path / "secret")
    one_line(run("-p", p.pid, "-o", tmp_path / "x.md"), 1, "link")
    assert (tmp_path / "secret").read_text() == "precious"


def test_full_disk_loses_no_report(program):
    p = program(WORKLOADS / "calls")
    result = run("-p", p.pid, "-d", "200ms", "-f", "json", "-o", "/dev/full")
    assert result.returncode == 1
    assert "no space" in result.stderr
    assert "How it was measured" in result.stdout or "calls" in result.stdout
    p.go()
    p.finish()


@pytest.fixture(scope="module")
def small_capture(tmp_path_factory):
    file = tmp_path_factory.mktemp("capture") / "a.perfx"
    p = Program(WORKLOADS / "calls")
    result = run("record", "-p", p.pid, "-F", "calls:outer", "-d", "100ms", "--no-calibrate", "-o", file)
    p.finish()
    assert result.returncode == 0, result.stderr
    return file.read_bytes()


@pytest.mark.parametrize("arguments", [
    "report {0} -o {0}", "export {0} -f perfetto -o {0}", "diff {0} {0} -o {0}", "report {0} -f csv -o {1}",
    "report {0} -f md -o {2}", "report {0} -f line >> {0}", "report {3} -f md -o {0}",
    "-p 1 -f md --capture {4} -o {4}", "run --capture {4} -- true > {4}",
])
def test_what_is_read_is_not_written(arguments, small_capture, tmp_path):
    """By its name, a link, another name, or the shell's redirection of stdout: refused before a file is
    opened."""
    names = [tmp_path / name for name in ("a.perfx", "soft", "hard", "to/../a.perfx", "new.perfx")]
    (tmp_path / "to").mkdir()
    names[0].write_bytes(small_capture)
    names[1].symlink_to(names[0])
    names[2].hardlink_to(names[0])
    result = subprocess.run(["bash", "-c", f"'{PERFX}' " + arguments.format(*names)],
                            capture_output=True, text=True, timeout=60)
    one_line(result, 2, "name another")
    assert names[0].read_bytes() == small_capture


def test_full_disk_leaves_the_older_report(small_capture, tmp_path):
    """A limit of the file size acts like a full disk: the old file is unchanged, and no other file
    remains."""
    (tmp_path / "a.perfx").write_bytes(small_capture)
    before = {}
    for name in ("a.html", "a.json", "a.pftrace", "diff.json"):
        (tmp_path / name).write_text("older")
        before[name] = "older"
    for command in ("report a.perfx -o a.html", "report a.perfx -o a.json", "export a.perfx -o a.pftrace",
                    "diff a.perfx a.perfx -o diff.json"):
        result = subprocess.run(["bash", "-c", f"ulimit -f 0; '{PERFX}' {command}"], cwd=tmp_path,
                                capture_output=True, text=True, timeout=60)
        assert result.returncode == 1 and "File too large" in result.stderr, result.stderr
    assert {f.name: f.read_text() for f in tmp_path.iterdir() if f.name != "a.perfx"} == before


def test_a_recording_that_fails_leaves_the_older_capture(program, small_capture, tmp_path):
    file = tmp_path / "a.perfx"
    file.write_bytes(small_capture)
    one_line(run("record", "-p", 4194303, "-o", file), 1, "4194303")
    one_line(run("record", "-p", 4194303, "-o", tmp_path / "new.perfx"), 1, "4194303")
    p = program(WORKLOADS / "calls")
    result = subprocess.run(["bash", "-c", f"ulimit -f 0; '{PERFX}' record -p {p.pid} -d 100ms "
                             f"--no-calibrate -o '{file}'"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "File too large" in result.stderr
    assert file.read_bytes() == small_capture
    assert not (tmp_path / "new.perfx").exists()


def test_special_files_are_written_directly(small_capture, tmp_path):
    file, fifo = tmp_path / "a.perfx", tmp_path / "fifo"
    file.write_bytes(small_capture)
    os.mkfifo(fifo)
    plain = run("report", file, "-f", "json").stdout
    assert run("report", file, "-f", "json", "-o", "/dev/stdout").stdout == plain
    assert run("report", file, "-f", "json", "-o", "/dev/null").returncode == 0
    assert os.stat("/dev/null").st_rdev == os.makedev(1, 3)
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True)
    assert run("report", file, "-f", "json", "-o", fifo).returncode == 0
    assert reader.communicate()[0] == plain
    # nobody reads: one line, and the first Ctrl-C ends it
    alone = subprocess.Popen([PERFX, "report", file, "-f", "json", "-o", fifo], stderr=subprocess.PIPE,
                             text=True)
    assert "nobody reads yet" in alone.stderr.readline()
    alone.send_signal(signal.SIGINT)
    assert alone.wait(10) == 1 and "interrupted" in alone.stderr.read()


# --- outputs in folders where other users can write ---

NOBODY = 65534
NOT_REPLACED, NOT_WRITTEN = "a file of another user", "a FIFO of another user"


def make_of_nobody(path, text="theirs"):
    path.write_text(text)
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o666)
    return path


def shared_folder(tmp_path, mode=0o1777):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    return folder


def writers(capture, path, pid):
    """One command line for each kind of output, written to `path`."""
    return [["report", capture, "-f", "md", "-o", path], ["export", capture, "-f", "perfetto", "-o", path],
            ["diff", capture, capture, "-f", "json", "-o", path], ["record", "-p", pid, "-o", path],
            ["-p", pid, "-f", "md", "-o", path], ["-p", pid, "-f", "md", "--capture", path],
            ["record", "-p", pid, "--flight", "1s", "-o", path]]


@pytest.mark.parametrize("writer", range(7))
def test_others_files_are_not_replaced(writer, program, small_capture, tmp_path):
    """A report never replaces a file of another user, whose owner and mode it would take over."""
    folder, capture = shared_folder(tmp_path), tmp_path / "a.perfx"
    capture.write_bytes(small_capture)
    theirs, pid = make_of_nobody(folder / "r.txt"), program(WORKLOADS / "calls").pid
    one_line(run(*writers(capture, theirs, pid)[writer]), 1, str(theirs), NOT_REPLACED)
    assert os.listdir(folder) == ["r.txt"] and theirs.read_text() == "theirs"
    os.unlink(theirs)
    os.mkfifo(theirs)
    os.chown(theirs, NOBODY, NOBODY)
    reader = os.open(theirs, os.O_RDONLY | os.O_NONBLOCK)
    one_line(run(*writers(capture, theirs, pid)[writer]), 1, str(theirs), NOT_WRITTEN)
    assert os.read(reader, 1) == b""
    os.close(reader)
    one_line(run(*writers(capture, theirs, pid)[writer]), 1, str(theirs), NOT_WRITTEN)  # without waiting for a reader
    assert os.listdir(folder) == ["r.txt"]


@pytest.mark.parametrize("mode, owner, sudo, refused", [
    (0o1777, NOBODY, None, True), (0o777, NOBODY, None, True), (0o1770, NOBODY, None, True),
    (0o1777, 0, None, False), (0o1777, NOBODY, NOBODY, False), (0o1777, NOBODY - 1, NOBODY, True),
    (0o755, NOBODY, None, False),
])
def test_whose_files_are_replaced(mode, owner, sudo, refused, small_capture, tmp_path):
    """Replaced: files of root, of the user who called sudo, and all files in a folder that only its owner can write."""
    folder, capture = shared_folder(tmp_path, mode), tmp_path / "a.perfx"
    capture.write_bytes(small_capture)
    file = folder / "r.md"
    file.write_text("older")
    os.chown(file, owner, owner)
    file.chmod(0o640)
    caller = {} if sudo is None else {"SUDO_UID": str(sudo), "SUDO_GID": str(sudo)}
    result = run("report", capture, "-o", file, env={**os.environ, **caller})
    assert result.returncode == refused, result.stderr
    assert (file.read_text() == "older") == refused
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (owner, 0o640)
    assert os.listdir(folder) == ["r.md"]


def test_others_links_are_not_followed(small_capture, tmp_path):
    """This holds for folders of the path, too. Links of root and of the user who called sudo are followed."""
    folder, capture, aim = shared_folder(tmp_path), tmp_path / "a.perfx", tmp_path / "aim"
    capture.write_bytes(small_capture)
    aim.mkdir()
    for name, owner in (("theirs", NOBODY), ("ours", 0)):
        (folder / name).symlink_to("../aim")
        os.chown(folder / name, owner, owner, follow_symlinks=False)
    (tmp_path / "chain").symlink_to(folder / "theirs" / ".." / "aim")
    for path in (folder / "theirs" / "r.md", tmp_path / "chain" / "r.md"):
        one_line(run("report", capture, "-o", path), 1, str(path), "symbolic link of another user")
    assert not os.listdir(aim)
    assert run("report", capture, "-o", folder / "ours" / "r.md").returncode == 0
    caller = {**os.environ, "SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}
    assert run("report", capture, "-o", folder / "theirs" / "sudo.md", env=caller).returncode == 0
    assert sorted(os.listdir(aim)) == ["r.md", "sudo.md"]
    (tmp_path / "round").symlink_to("round")
    one_line(run("report", capture, "-o", tmp_path / "round" / "r.md"), 1, "symbolic link")
    # the text of a link in /proc may refer to another root: its target folder counts
    assert run("report", capture, "-o", f"/proc/self/root{aim}/proc.md").returncode == 0
    assert (aim / "proc.md").exists()


def test_unfinished_files_of_others_stay(small_capture, tmp_path):
    """A .part file may be a download of Firefox, or a killed recording, which is still useful."""
    capture, report, other = (tmp_path / name for name in ("a.perfx", "keep.md", "keep.md.part"))
    capture.write_bytes(small_capture)
    other.write_text("half of a download")
    for _ in range(2):
        assert run("report", capture, "-o", report).returncode == 0
    assert other.read_text() == "half of a download"
    assert sorted(os.listdir(tmp_path)) == ["a.perfx", "keep.md", "keep.md.part"]
    other.unlink()
    other.symlink_to(capture)
    assert run("report", capture, "-o", report).returncode == 0
    assert capture.read_bytes() == small_capture and other.is_symlink()


def test_a_disk_is_no_output(small_capture, tmp_path):
    disk, capture = tmp_path / "disk", tmp_path / "a.perfx"
    capture.write_bytes(small_capture)
    os.mknod(disk, 0o600 | stat.S_IFBLK, os.makedev(7, 255))
    one_line(run("report", capture, "-f", "md", "-o", disk), 1, str(disk), "not a regular file")


def test_nearest_names(program):
    p = program(WORKLOADS / "calls")
    line = one_line(run("-p", p.pid, "-F", "calls:first_pusch"), 2, "first_pusch")
    assert "first_push" in line.split("similar")[1]
    p.go()
    p.finish()


def test_not_root(program):
    p = program(WORKLOADS / "calls")
    result = run_unprivileged("-p", p.pid, "-o", "a b.html")
    assert result.returncode == 77 and not result.stdout
    error, by_sudo, by_capabilities = result.stderr.splitlines()
    assert "no permission to load BPF programs" in error
    tracer, = re.findall(r"^perfx-trace: with sudo: sudo (/tmp/\S+/perfx-trace) -p ", by_sudo)
    assert by_sudo.endswith(f" -p {p.pid} -o 'a b.html'")
    assert by_capabilities.endswith(f": sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep {tracer}")


def test_doctor_without_root():
    """It does not report on kernel features that it could not test, and says how to test them."""
    result = run_unprivileged("doctor")
    assert result.returncode == 77
    lines = result.stdout.splitlines()
    assert [l for l in lines if l.startswith("MISSING")] == [
        l for l in lines if "privilege to load BPF programs: run with sudo" in l]
    for what in ("BPF ring buffer", "uprobe_multi links", "hardware counters"):
        assert any(l.startswith("?       " + what) for l in lines), result.stdout
    assert "Linux 5.8" not in result.stdout
    assert re.fullmatch(r"Not root: lines with \? were not tested; run: sudo /tmp/\S+/perfx-trace doctor", lines[-1])


def test_doctor():
    result = run("doctor")
    assert result.returncode == 0, result.stdout
    assert "ok      privilege" in result.stdout


def test_doctors_at_once():
    """Each tests the same probes on the same file, with the result that it has alone."""
    doctors = [subprocess.Popen([PERFX, "doctor"], stdout=subprocess.PIPE, text=True)
               for _ in range(20)]
    said = {doctor.communicate(timeout=60)[0] for doctor in doctors}
    assert said == {run("doctor").stdout}


def test_report_of_what_is_no_capture(tmp_path):
    (tmp_path / "x").write_text("hello, this is no capture at all")
    one_line(run("report", tmp_path / "x"), 1, "a text file; needed: a capture")
    one_line(run("report", tmp_path / "missing"), 1, "missing")
    one_line(run("report", tmp_path), 1, "directory")


def test_target_ends_during_attach():
    for delay in ("0", "0.01", "0.05", "0.2", "0.6"):
        target = subprocess.Popen(["sleep", delay])
        result = run("-p", target.pid, "-d", "300ms", "--no-calibrate")
        target.wait()
        assert result.returncode in (0, 1, 3), result.stderr


def test_stripped_without_names(program):
    """No names: the report has facts, and the reason for missing functions."""
    p = program(WORKLOADS / "calls-bare")
    result = run("-p", p.pid, "-d", "200ms")
    assert result.returncode == 0
    p.go()
    p.finish()


def test_probes_by_kind(program):
    """Default functions have a line per file and kind; with -v, or if named, one per function."""
    p = program(WORKLOADS / "often", "sgemm_")
    asked = ["probes", "-p", p.pid, "--memory", "off", "--no-calibrate"]
    short, whole = run(*asked).stdout.splitlines(), run(*asked, "-v").stdout.splitlines()
    group = next(l.split() for l in short if "tinyblas.so" in l)
    each = [l for l in whole if "tinyblas.so" in l]
    assert group[0] == str(len(each)) and len(each) >= 3
    assert sum("tinyblas.so" in l for l in short) == 1
    assert any(l.endswith("tinyblas.so  strsm_") for l in each)
    named = run(*asked, "-F", "tinyblas.so:strsm_").stdout
    assert sum("tinyblas.so  strsm_" in l for l in named.splitlines()) == 1 and "COUNT" not in named
    p.go()
    p.finish()
