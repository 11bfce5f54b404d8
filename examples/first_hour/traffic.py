"""Sends sums to the project in this folder and reports which were right: python traffic.py 300

Replace `tasks` and `solved` by your own requests and your own check. Any OpenAI client does the same: base_url is
URL/v1, the model is headway/TASK, and the id of the answer is the id of the decision.
"""

import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

started = Path(".headway", "run", "server.json")
if not (os.environ.get("HEADWAY_URL") or started.exists()):
    print("Waiting for `headway up` in this folder.", file=sys.stderr, flush=True)
while not (os.environ.get("HEADWAY_URL") or started.exists()):
    time.sleep(0.1)  # `headway up` is starting
url = os.environ.get("HEADWAY_URL") or json.loads(started.read_text("utf-8"))["url"]


def post(path: str, body: dict) -> dict:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:  # the server says what is wrong, and what to do
        sys.exit(f"{url}{path} answered {error.code}: {error.read().decode('utf-8', 'replace')}")
    except OSError as error:
        sys.exit(f"No server answers at {url}: {error}. Is `headway up` running in this folder?")


right, count = 0, int(sys.argv[1])
for _ in range(count):
    a, b = random.randint(1, 99), random.randint(1, 99)
    prompt = [{"role": "user", "content": f"What is {a} + {b}? Answer with the number only."}]
    answer = post("/v1/chat/completions", {"model": "headway/route", "messages": prompt})
    solved = str(a + b) in answer["choices"][0]["message"]["content"]
    post(f"/v1/decisions/{answer['id']}/signals", {"solved": float(solved)})
    right += solved
print(f"{right} of {count} sums were right.")
