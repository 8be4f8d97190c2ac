"""Drives Debian's Chromium, headless, over the pipe of its DevTools protocol. No package is needed for that."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = "chromium"  # the Debian package
PATIENCE = 60  # seconds for an answer


class Browser:
    """One page. `requests` and `complaints` are what it has asked the network for, and written to the console, since open()."""

    def __init__(self):
        assert shutil.which(CHROMIUM), "install Chromium: scripts/install-deps.sh"
        self._profile = tempfile.TemporaryDirectory(prefix="cairn-chromium-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        plumbing = f'exec 3<&{theirs_in} 4>&{theirs_out} && exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", plumbing, "bash", CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._events, self._number, self._session = b"", [], 0, None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        for _ in range(50):  # its children end a moment later, and still write
            try:
                return self._profile.cleanup()
            except OSError:
                time.sleep(0.1)

    def _message(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = memoryview(json.dumps(message).encode() + b"\0")
        while data:
            data = data[os.write(self._out, data):]
        while (answer := self._message()).get("id") != self._number:
            self._events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, url, width=1440, height=900, dark=False):
        """Loads a page, and waits until it is loaded."""
        scheme = "dark" if dark else "light"
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._call("Page.navigate", url="about:blank")
        self.run("0")
        self._events.clear()
        failure = self._call("Page.navigate", url=url).get("errorText")
        assert not failure, failure
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._message())
        assert self.run("location.href").startswith(url.split(":")[0])

    def run(self, script):
        """The value of an expression in the page; an exception of it fails."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key, code=0):
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self._call("Input.insertText", text=text)

    def settle(self):
        """Waits until the page has drawn what has happened."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    @property
    def requests(self):
        self.run("0")
        return [event["params"]["request"]["url"] for event in self._events if event["method"] == "Network.requestWillBeSent"]

    @property
    def complaints(self):
        self.run("0")
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self._events if event["method"] in kinds]

    def picture(self, path, clip=None):
        """Writes a PNG of what is in sight, or of a part (x, y, width, height) of the page."""
        options = {"clip": dict(zip(("x", "y", "width", "height"), clip), scale=1), "captureBeyondViewport": True} if clip else {}
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", **options)["data"]))
