"""A real browser for the report page: Chromium without a window, driven over its DevTools pipe."""

import base64
import contextlib
import fcntl
import json
import os
import select
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One Chromium process; `open` gives a page."""

    def __init__(self, program, profile):
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write)]

        def connect():  # DevTools reads commands from descriptor 3 and answers on 4
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=connect,
            pass_fds=(3, 4),
        )
        for fd in (to_read, to_write, *high):
            os.close(fd)
        self._buffer, self._number, self.events = b"", 0, []

    def call(self, method, session=None, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, seconds=30):
        """The next message; events are kept."""
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("Chromium does not answer")
            self._buffer += data
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path, width=1200, height=900, dark=False, mobile=False):
        return Page(self, path, width, height, dark, mobile)

    def close(self):
        with contextlib.suppress(Exception):
            self.call("Browser.close")
        self._process.wait(20)
        os.close(self._out)
        os.close(self._in)


class Page:
    """A page that is loaded when this object is there, with all it said and asked for."""

    def __init__(self, browser, path, width, height, dark, mobile):
        self.browser = browser
        browser.events.clear()
        for old in browser.call("Target.getTargets")["targetInfos"]:  # one page at a time
            if old["type"] == "page" and old["url"] != "about:blank":
                browser.call("Target.closeTarget", targetId=old["targetId"])
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=path if "://" in str(path) else Path(path).resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def run(self, expression):
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", expression))
        return answer["result"].get("value")

    def wait(self, expression, seconds=20):
        deadline = time.monotonic() + seconds
        while not self._holds(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(expression)
            time.sleep(0.02)

    def _holds(self, expression):
        try:
            return self.run(expression)
        except RuntimeError as error:
            if "navigated" not in str(error):
                raise
            return False  # asked while one page went and the next came

    def click(self, selector):
        """A real mouse click in the middle of the first element that matches."""
        find = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{find}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.run(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({find}.getBoundingClientRect())"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], **button)

    def type(self, selector, text):
        self.click(selector)
        self.call("Input.insertText", text=text)

    def press(self, selector, key, index=0):
        """A key on the element of this index that matches."""
        self.run(f"document.querySelectorAll({json.dumps(selector)})[{index}].focus()")
        number = {"ArrowUp": 38, "ArrowDown": 40}[key]
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=number)

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent.trim())")

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def _events(self, name):
        return [e["params"] for e in self.browser.events if e["method"] == name and e.get("sessionId") == self.session]

    @property
    def complaints(self):
        """Errors and warnings on the console, and uncaught exceptions."""
        said = [e for e in self._events("Runtime.consoleAPICalled") if e["type"] in ("error", "warning", "assert")]
        return said + self._events("Runtime.exceptionThrown") + [e["entry"] for e in self._events("Log.entryAdded")]

    @property
    def requests(self):
        """Addresses asked for, other than the page's own file."""
        urls = [e["request"]["url"] for e in self._events("Network.requestWillBeSent")]
        return urls[1:]
