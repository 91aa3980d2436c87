"""A headless Chromium driven through `--remote-debugging-pipe`: JSON messages, each ended by NUL,
on file descriptors 3 and 4.

Everything has a deadline; the browser runs in a process group of its own, which is killed by its
recorded id.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_LAUNCH = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 16) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""

FIRST_SCREEN = """
(() => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const lines = [];
  let block = null;
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    const text = walk.currentNode.textContent.replace(/\\s+/g, " ").trim();
    if (!text || ["SCRIPT", "STYLE", "title", "desc"].includes(parent.tagName)) continue;
    if (!parent.checkVisibility() || parent.closest("details:not([open]) > :not(summary)")) continue;
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    const box = range.getBoundingClientRect();
    if (!box.height || box.right < 0 || box.bottom > innerHeight) continue;
    const own = parent.closest("p, li, pre, h1, h2, h3, dl > div, tr, summary, text");
    if (own && own === block) lines[lines.length - 1] += " " + text;
    else lines.push(text);
    block = own;
  }
  return lines.join("\\n");
})()
"""


def executable() -> str | None:
    """Path of a Chromium on this machine; None = there is none."""
    return next(
        filter(
            None,
            map(
                shutil.which,
                ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
            ),
        ),
        None,
    )


class Browser:
    """One browser process with a profile of its own."""

    def __init__(self, timeout_s: float = 60.0) -> None:
        path = executable()
        assert path, "no Chromium found"
        self.timeout_s = timeout_s
        self.events: list[dict[str, Any]] = []
        self._profile = tempfile.mkdtemp(prefix="busbw-browser-")
        self._number = 0
        self._buffer = b""
        ours_read, theirs_write = os.pipe()
        theirs_read, ours_write = os.pipe()
        self._read, self._write = ours_read, ours_write
        options = (
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--hide-scrollbars",
            f"--user-data-dir={self._profile}",
            "about:blank",
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(theirs_read), str(theirs_write), path, *options],
            pass_fds=(theirs_read, theirs_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_read)
        os.close(theirs_write)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events that arrive meanwhile are kept in
        `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | (
            {"sessionId": session} if session else {}
        )
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout_s
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self.events.append(answer)

    def wait_for(self, method: str, session: str) -> dict[str, Any]:
        """The next event of that name in that session, one already received included."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            for event in self.events:
                if event.get("method") == method and event.get("sessionId") == session:
                    return dict(event["params"])
            self.events.append(self._next(deadline, method))

    def _next(self, deadline: float, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, (
                f"the browser said nothing within {self.timeout_s} s; waiting for {waiting_for}"
            )
            chunk = os.read(self._read, 1 << 20)
            assert chunk, f"the browser ended; waiting for {waiting_for}"
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        told = dict(json.loads(message))
        # An open dialog stops the page for ever: nothing here may open one, so it is a failure at
        # once.
        assert told.get("method") != "Page.javascriptDialogOpening", (
            f"the page opened a dialog: {told['params']}"
        )
        return told

    def open(self, url: str, **settings: Any) -> Page:
        """A new page on that address, loaded."""
        return Page(self, url, **settings)

    def close(self) -> None:
        """Kill the process group that was started, and drop its profile."""
        os.close(self._write)
        os.close(self._read)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(10)
        shutil.rmtree(self._profile, ignore_errors=True)


class Page:
    """One page; what it logged, asked for and opened is in the browser's events under its
    session."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        width: int = 1120,
        height: int = 900,
        scheme: str = "light",
        scripts: bool = True,
    ) -> None:
        self.browser = browser
        self.target = str(browser.call("Target.createTarget", url="about:blank")["targetId"])
        self.session = str(
            browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        )
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.call("Page.navigate", url=url)
        browser.wait_for("Page.loadEventFired", self.session)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to this page."""
        return self.browser.call(method, self.session, **params)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, code: int = 0) -> None:
        """One key, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def said(self, *methods: str) -> list[dict[str, Any]]:
        """Parameters of the events of those names that this page sent so far."""
        return [
            e["params"]
            for e in self.browser.events
            if e.get("sessionId") == self.session and e["method"] in methods
        ]

    def first_screen(self) -> str:
        """The text that the window shows before anybody scrolls, a line for each block."""
        return str(self.evaluate(FIRST_SCREEN))

    def window(self, path: Path) -> None:
        """What the window shows, as PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": min(size["height"], 12000),
            "scale": 1,
        }
        data = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self) -> bytes:
        """The page as printed, on the paper its style sheet asks for."""
        answer = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        return base64.b64decode(answer["data"])
