# SPDX-License-Identifier: BSD-2-Clause
"""A headless Chromium over its debugging pipe: commands and events as JSON, each ended by a NUL."""
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. Its network requests and console errors are kept."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="perfx-browser-")
        to_child, self.write = os.pipe()
        self.read, from_child = os.pipe()

        def pipes():  # Chromium reads commands from 3 and writes to 4
            high = [os.dup(to_child), os.dup(from_child)]
            for number, fd in zip((3, 4), high):
                os.dup2(fd, number)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={self.folder}",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.pending, self.number, self.session = b"", 0, None
        self.requests, self.complaints, self.loaded = [], [], False
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _message(self, deadline):
        while b"\0" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self.read, 1 << 20)
            if not chunk:
                raise EOFError("the browser has ended")
            self.pending += chunk
        line, self.pending = self.pending.split(b"\0", 1)
        return json.loads(line)

    def _note(self, event):
        params = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded",
                                 "Page.javascriptDialogOpening"):
            self.complaints.append(params)
        elif event["method"] == "Page.loadEventFired":
            self.loaded = True

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            message = self._message(deadline)
            if message.get("id") == self.number:
                assert "error" not in message, message["error"]
                return message["result"]
            if "method" in message:
                self._note(message)

    def open(self, path, width=1200, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.loaded, self.requests, self.complaints = False, [], []
        self.call("Page.navigate", url=path if "://" in str(path) else f"file://{path}")
        deadline = time.monotonic() + 60
        while not self.loaded:
            event = self._message(deadline)
            if "method" in event:
                self._note(event)
        # graphs are drawn when their size is first observed, in a later frame
        self.eval("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")

    def eval(self, script):
        """The value of an expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True,
                           userGesture=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)
