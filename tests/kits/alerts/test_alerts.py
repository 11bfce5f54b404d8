"""Alerts: sent once per alarm, by a thread that no receiver can hold up."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from headway.kits.alerts.alerts import Alerts
from headway.kits.proxy.outages import OutageLog
from headway.nouns.alarm import Alarm
from headway.observe.jobs import Jobs
from headway.project import Project
from headway.project.alarm import alert_failure, end_alarm
from tests.cli.terminal import headway
from tests.loop.conftest import rewarded
from tests.loop.running import until

TASK = '[tasks.route]\nactions = ["small", "large"]\nretrain_after = 1000000\n'


class Receiver:
    """A real server; `behave(handler)` answers. Hanging answers end when the test does."""

    def __init__(self, behave):
        self.bodies, self.headers = [], []
        self.got, self.ends = threading.Event(), threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["content-length"])
                receiver.bodies.append(json.loads(self.rfile.read(length)))
                receiver.headers.append(dict(self.headers))
                receiver.got.set()
                behave(self, receiver)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_):
                pass  # the client went away

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self):
        self.ends.set()
        self.server.shutdown()
        self.server.server_close()


def answers(status, **headers):
    def behave(handler, _):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return behave


def hangs(_handler, receiver):
    receiver.ends.wait()


def floods(handler, receiver):
    handler.send_response(200)
    handler.end_headers()
    while not receiver.ends.is_set():
        handler.wfile.write(bytes(1 << 20))


@pytest.fixture
def receivers():
    opened = []

    def open_one(behave):
        opened.append(Receiver(behave))
        return opened[-1]

    yield open_one
    for receiver in opened:
        receiver.close()


def collapse(project, *, n=300, good=0.9, bad=0.1):
    """Traffic whose outcomes collapse."""
    rng = np.random.default_rng(5)
    for chance in (good, bad):
        rewarded(project, "route", [("a question", lambda _, c=chance: float(rng.random() < c))] * n)


def alerted(watch):
    return [job for job in Jobs(watch.project.database).latest() if job.kind == "alert"]


def test_an_alarm_is_told_to_the_webhook_and_the_command(watching, receivers, tmp_path):
    receiver, file = receivers(answers(204)), tmp_path / "told.txt"
    script = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n' + sys.stdin.read() + '\\n')"
    command = json.dumps([sys.executable, "-c", script, str(file)])
    toml = f'{TASK}[alerts]\nwebhook = "{receiver.url}"\nkey_env = "HOOK_KEY"\ncommand = {command}\n'
    said = []
    watch = watching(toml, say=said.append, environ={"HOOK_KEY": "s3cret"})
    collapse(watch.project)
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    (body,) = receiver.bodies
    (alarm,) = watch.project.alarms("route")
    assert body == {**body, "event": "alarm", "task": "route", "stream": alarm.stream, "before": alarm.before}
    assert body["text"] == str(alarm)
    assert body["id"] == f"{tmp_path.name}-route-{alarm.seq}"
    assert receiver.headers[0]["authorization"] == "Bearer s3cret"
    sentence, document, *_ = file.read_text().splitlines()
    assert sentence == f"route: {alarm}"
    assert json.loads(document) == body
    assert f"route: alarm: {alarm}" in said
    (job,) = alerted(watch)
    assert (job.state, job.result["summary"]) == ("done", "told webhook and command")


def test_an_outage_is_told_when_it_begins_and_when_it_ends_also_after_a_restart(watching, receivers):
    receiver = receivers(answers(204))
    toml = (
        f'{TASK}[upstreams.small]\nurl = "http://127.0.0.1:1/v1"\nmodel = "s"\n[alerts]\nwebhook = "{receiver.url}"\n'
    )
    watch = watching(toml)
    now = watch.project.clock()
    outage = OutageLog(watch.project).begin("small", now - 60.0, now, "upstream_status", 5, 7)
    watch.project.writer.probe()
    for again in range(2):
        watch.check()
        assert watch.tellers["alerts"].wait(60.0)
        assert [body["event"] for body in receiver.bodies] == ["outage"]
        if not again:
            watch.__exit__(None, None, None)
            watch = watching(toml)
    OutageLog(watch.project).end(outage, now, 9, 30)
    watch.project.writer.probe()
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    begun, ended = receiver.bodies
    assert (begun["upstream"], begun["until"], begun["elsewhere"]) == ("small", None, 7)
    assert (ended["event"], ended["failures"], ended["id"]) == ("outage_ended", 9, f"{begun['id']}-ended")
    assert ended["text"].startswith("'small' was down from")


def test_an_alert_is_sent_once_also_after_a_restart(watching, receivers):
    receiver = receivers(answers(204))
    watch = watching(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\n')
    collapse(watch.project)
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    watch.check()
    watch.__exit__(None, None, None)
    again = watching()
    again.check()
    assert again.tellers["alerts"].wait(60.0)
    assert len(receiver.bodies) == 1


def test_the_end_of_an_alarm_is_told_once_also_after_a_restart(watching, receivers):
    receiver = receivers(answers(204))
    watch = watching(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\n')
    collapse(watch.project)
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    watch.__exit__(None, None, None)
    again = watching()
    again.check()
    end_alarm(again.project, "route", why="repaired", who="bob")
    for _ in range(2):
        again.check()
        assert again.tellers["alerts"].wait(60.0)
    begun, ended = receiver.bodies
    assert ended["event"] == "alarm_ended"
    assert ended["id"] == f"{begun['id']}-ended"
    assert ended["ended"] == "repaired"
    assert ended["text"] == f"The alarm has ended (repaired): {begun['text']}"


def test_an_alert_that_was_not_sent_is_sent_after_a_restart(watching, receivers):
    receiver = receivers(answers(204))
    watch = watching(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\n')
    collapse(watch.project)
    watch.tellers["alerts"]._abandoned = 99  # nothing is sent any more, as if the process ended now
    watch.check()
    watch.__exit__(None, None, None)
    assert receiver.bodies == []
    again = watching()
    again.check()
    assert again.tellers["alerts"].wait(60.0)
    assert [body["task"] for body in receiver.bodies] == ["route"]


@pytest.mark.parametrize(
    ("behave", "why", "times"),
    [
        (answers(500), "answered 500", 2),
        (answers(404), "answered 404", 1),
        (answers(307, location="http://127.0.0.1:1/elsewhere"), "wants to redirect (307)", 1),
        (floods, "sent more than 65,536 bytes", 1),
    ],
    ids=["fails", "refuses", "redirects", "floods"],
)
def test_a_failing_webhook_is_said_in_the_job(watching, receivers, behave, why, times):
    receiver = receivers(behave)
    watch = watching(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\n')
    collapse(watch.project)
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    (job,) = alerted(watch)
    assert (job.state, job.result["webhook"]) == ("failed", why)
    assert job.result["error"]["message"] == f"The webhook {why}."
    assert len(receiver.bodies) == times


def test_a_webhook_that_hangs_holds_up_neither_decisions_nor_cycles(watching, receivers):
    receiver = receivers(hangs)
    watch = watching(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\ntimeout_s = 600\n')
    collapse(watch.project)
    watch.check()  # would return after ten minutes if it waited
    assert receiver.got.wait(60.0)
    watch.project.decide("route", "a question")
    watch.check()
    assert [job.state for job in alerted(watch)] == ["running"]


def test_a_webhook_that_hangs_is_given_up_after_its_time_limit(watching, receivers):
    receiver = receivers(hangs)
    watch = watching(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\ntimeout_s = 0.05\n')
    collapse(watch.project)
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    assert alerted(watch)[0].result["webhook"] == "did not answer within 0.05 s"


def test_a_webhook_that_hangs_does_not_hold_up_the_command(watching, receivers, tmp_path):
    receiver, file = receivers(hangs), tmp_path / "told.txt"
    command = json.dumps([sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", str(file)])
    watch = watching(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\ncommand = {command}\ntimeout_s = 600\n')
    collapse(watch.project)
    watch.check()
    until(lambda: "command" in watch.tellers["alerts"]._sending.results, "the command")
    assert file.read_text().startswith("route: ")
    assert "webhook" not in watch.tellers["alerts"]._sending.results
    assert [job.state for job in alerted(watch)] == ["running"]


def test_one_pass_waits_until_a_receiver_that_hangs_is_given_up(receivers, tmp_path):
    receiver = receivers(hangs)
    (tmp_path / "headway.toml").write_text(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\ntimeout_s = 0.2\n')
    with Project(tmp_path, environ={}) as project:
        collapse(project)
    assert headway("-C", tmp_path, "watch", "--once", "--now").code == 0
    assert len(receiver.bodies) == 2, "tried twice"
    with Project(tmp_path, environ={}) as project:
        assert alert_failure(project) == "The webhook did not answer within 0.2 s."


def test_a_webhook_that_asks_for_a_long_pause_is_tried_again_within_the_time_limit(watching, receivers):
    receiver = receivers(answers(503, **{"retry-after": "3600"}))
    watch = watching(f'{TASK}[alerts]\nwebhook = "{receiver.url}"\ntimeout_s = 0.05\n')
    collapse(watch.project)
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    assert len(receiver.bodies) == 2
    assert alerted(watch)[0].result["webhook"] == "answered 503"


def test_a_command_that_hangs_is_killed(watching, tmp_path):
    file = tmp_path / "pid"
    script = "import os, sys, threading; open(sys.argv[1], 'w').write(str(os.getpid())); threading.Event().wait()"
    command = json.dumps([sys.executable, "-c", script, str(file)])
    watch = watching(f"{TASK}[alerts]\ncommand = {command}\ntimeout_s = 2\n")
    collapse(watch.project)
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    assert alerted(watch)[0].result["command"] == "did not end within 2 s"
    import os

    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def test_a_command_that_does_not_exist_is_said(watching):
    watch = watching(f'{TASK}[alerts]\ncommand = ["no-such-program"]\n')
    collapse(watch.project)
    watch.check()
    assert watch.tellers["alerts"].wait(60.0)
    assert alerted(watch)[0].result["command"] == "cannot be started (No such file or directory)"


def test_without_receivers_nothing_is_queued(watching):
    watch = watching(TASK)
    collapse(watch.project)
    watch.check()
    assert watch.project.alarms("route")
    assert alerted(watch) == []


def test_a_name_that_a_client_gave_is_one_argument_of_the_command_and_no_word_of_a_shell(tmp_path):
    name = "--help; touch pwned $(touch pwned) \x1b]0;title\x07\n`touch pwned`"
    told = tmp_path / "told.json"
    program = "import json, sys; json.dump([sys.argv[1:], json.load(sys.stdin)], open(sys.argv[1], 'w'))"
    command = json.dumps([sys.executable, "-c", program, str(told)])
    (tmp_path / "headway.toml").write_text(f"[alerts]\ncommand = {command}\n")
    alarm = Alarm(
        task="route", stream=f"action {name}", action=name, segment="$(touch pwned)", since=1e9, from_decision=1,
        before=0.9, after=0.1, rows=(9, 9), explore=0.0, policy="uniform@0", at=1e9, seq=1, key="k",
    )  # fmt: skip
    with Project(tmp_path, environ={}) as project:
        alerts = Alerts(project.clock)
        alerts.use(project)
        alerts.add(alarm)
        assert alerts.wait(60.0)
    (_, sentence), document = json.loads(told.read_text())
    assert sentence == f"route: {alarm}"
    assert sentence.isprintable()
    assert document["action"] == name
    assert not list(tmp_path.rglob("pwned"))
