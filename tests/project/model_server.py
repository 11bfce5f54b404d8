"""A small real chat server whose answers depend on the prompt: sums come out right where the prompt has its steps laid
out, slogans hold their word where it says what the output must look like, and nothing else ever does."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headway.kits.prompts.mutations import THERE

COUNTED = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}


def answer(text: str) -> str:
    sums = re.search(r"total of (\d+) and (\d+)", text)
    if sums:
        right = THERE["task-decomposition"].search(text) is not None
        return f"It is {int(sums[1]) + int(sums[2])}." if right else "I am not sure."
    word = re.search(r"the word '(\w+)'", text)
    if word and THERE["constraint-addition"].search(text):
        return f"Always {word[1]}."
    return "I am not sure."


def prompts_file(path: Path, count: int = 40) -> Path:
    """Prompts of two kinds, by turns."""
    rows: list[dict[str, Any]] = []
    for number in range(count):
        if number % 2:
            one, other = 3 + number, 2 * number + 1
            text, check = f"Please compute the total of {one} and {other}.", {"kind": "numeric", "value": one + other}
            rows.append({"id": f"sum-{number}", "class": "data analysis", "text": text, "check": check})
        else:
            word = f"word{number}"
            text = f"Please write a slogan for shop {number}. Use the word '{word}'."
            check = {"kind": "includes", "all": [word]}
            rows.append({"id": f"slogan-{number}", "class": "marketing", "text": text, "check": check})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


class ModelServer:
    """Runs in a thread; `behave(number, body)` may give another status, headers and body than a good answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.usage: dict[str, Any] | None = COUNTED
        self.behave: Callable[[int, dict[str, Any]], tuple[int, dict[str, str], bytes] | None] = lambda *_: None
        lock = threading.Lock()
        mine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                text = body["messages"][-1]["content"]
                with lock:
                    mine.asked.append(text)
                    mine.headers.append({name.lower(): value for name, value in self.headers.items()})
                    mine.bodies.append(body)
                    number = len(mine.asked)
                status, headers, answer_body = mine.behave(number, body) or (200, {}, mine.good(text))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer_body)))
                self.end_headers()
                self.wfile.write(answer_body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A disconnected client is not an error."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def good(self, text: str) -> bytes:
        reply = {"choices": [{"message": {"role": "assistant", "content": answer(text)}, "finish_reason": "stop"}]}
        return json.dumps(reply if self.usage is None else {**reply, "usage": self.usage}).encode()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
