"""A headless Chromium under remote control: JSON messages through two pipes, no port, no package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
    "--disable-dev-shm-usage",
)  # fmt: skip
_PATIENCE_S = 60.0
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""A browser under control reads messages from descriptor 3 and writes them to 4."""


class Browser:
    """One tab in a browser of its own profile. `events` are what it reported: log entries, errors, requests."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        self.events: list[dict[str, Any]] = []
        self._number, self._session, self._buffer = 0, "", b""
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
        start = [sys.executable, "-c", _START, str(to_browser), str(from_browser), *command]
        self._process = subprocess.Popen(
            start, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        target = next(item for item in self.send("Target.getTargets")["targetInfos"] if item["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; what the browser reports meanwhile is kept in `events`."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def open(
        self, path: Path, width: int = 1200, height: int = 900, *, scripts: bool = True, dark: bool = False
    ) -> None:
        """Open a file at a width, and wait until it has loaded. What was reported of an earlier page is forgotten."""
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        end = time.monotonic() + _PATIENCE_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < end, "the page does not load"
            self.events.append(self._receive())

    def run(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys: Tab, Enter, Space."""
        codes = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " ")}
        for key in keys:
            code, text = codes[key]
            name = " " if key == "Space" else key
            common = {"key": name, "code": key, "windowsVirtualKeyCode": code}
            self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.send("Input.insertText", text=text)

    def point_at(self, selector: str) -> None:
        """Move the pointer to the middle of an element."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect(); "
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def messages(self) -> list[str]:
        """Return what the page wrote to the console and what went wrong in it."""
        self.run("0")
        wanted = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event) for event in self.events if event.get("method") in wanted]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for, but for files and data within the page."""
        self.run("0")
        asked = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [address for address in asked if not address.startswith(("file:", "data:"))]

    def picture(self, *, whole: bool = True) -> bytes:
        """Return the page as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def paper(self) -> bytes:
        """Return the page as PDF, on A4."""
        self.send("Emulation.clearDeviceMetricsOverride")
        self.send("Emulation.setEmulatedMedia", media="")
        return base64.b64decode(self.send("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])


def lowest_contrast(browser: Browser, selectors: str) -> dict[str, Any]:
    """Return the lowest contrast ratio of these items to the page's background (WCAG 2), with the item's text."""
    lowest: dict[str, Any] = browser.run(_CONTRAST.replace("SELECTORS", json.dumps(selectors)))
    return lowest


_CONTRAST = """(() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const back = light(parts(getComputedStyle(document.body).backgroundColor));
  let lowest = {ratio: 99};
  for (const item of document.querySelectorAll(SELECTORS)) {
    const fore = light(parts(getComputedStyle(item).color));
    const ratio = (Math.max(fore, back) + 0.05) / (Math.min(fore, back) + 0.05);
    if (ratio < lowest.ratio) lowest = {ratio, text: item.textContent.slice(0, 40), class: item.className};
  }
  return lowest;
})()"""

CONTRASTS = """
(() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
  const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = (e) => {
    const chain = [];
    for (; e; e = e.parentElement) chain.push(parse(getComputedStyle(e).backgroundColor));
    return chain.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest("script, title, desc")) continue;
    const style = getComputedStyle(e);
    const ground = behind(e);
    const ink = over(parse(e instanceof SVGElement ? style.fill : style.color), ground);
    const [low, high] = [luminance(ink), luminance(ground)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    seen += 1;
    if (ratio < 4.5) bad.push([ratio.toFixed(2), walk.currentNode.data.trim().slice(0, 40), style.color]);
  }
  return { seen, bad };
})()
"""
