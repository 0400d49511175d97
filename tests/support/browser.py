"""Headless Chromium, driven through its debugging pipe: no driver and no package is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 120  # seconds without an answer
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
    "--allow-file-access-from-files", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One tab. Messages are JSON, separated by zero bytes."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer, self._number, self._session = b"", 0, ""
        self.problems: list[str] = []  # errors of the console and requests that failed
        self._loaded = False
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come before it are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], PATIENCE)
            data = os.read(self._answers, 1 << 16) if ready else b""
            assert data, "chromium has ended, or does not answer"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"].get("exception", params)))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.problems.append(str(params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif event == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "data:", "about:", "blob:")):
                self.problems.append(f"request to {url}")

    def resize(self, width: int, height: int = 900) -> None:
        """Show pages as a screen of this size does; narrow ones count as phones."""
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                   deviceScaleFactor=1, mobile=width < 600)  # fmt: skip

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._loaded, self.problems = False, []
        self._send("Page.navigate", url=url)
        while not self._loaded:
            self._receive()

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of the promise that it is."""
        found = self._send("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        data = self._send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def opened(profile: Path) -> Iterator[Browser]:
    """A browser that keeps its data in the folder `profile`."""
    assert CHROMIUM is not None
    read, commands = os.pipe()
    answers, write = os.pipe()
    # Chromium reads commands from descriptor 3 and writes answers to descriptor 4
    script = f'exec "$@" 3<&{read} 4>&{write}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(read, write), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(read)
    os.close(write)
    try:
        yield Browser(commands, answers)
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(answers)
