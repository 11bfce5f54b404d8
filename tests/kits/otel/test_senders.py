"""Ten thousand spans of each tool that people have, sent by its real package: none is lost, none comes twice.

Each sender is a process of its own, which exports everything twice: the second time as a retry would. A package that is
not installed skips its test by name.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.kits.otel.test_door import TOML, Door
from tests.packages import installed
from tests.serve.conftest import Running

_TWICE = """
import sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

url, key, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Twice(OTLPSpanExporter):
    def export(self, spans):
        first, second = super().export(spans), super().export(spans)
        assert first is second is SpanExportResult.SUCCESS
        return second

exporter = Twice(f"{url}/v1/traces", headers={"authorization": f"Bearer {key}"})
"""
_PROVIDER = """
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=20_000))
"""
SENDERS = {
    "opentelemetry-sdk": _TWICE
    + _PROVIDER
    + """
tracer = provider.get_tracer("app")
for number in range(count):
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": ("small-model", "large-model")[number % 2],
                  "gen_ai.usage.input_tokens": number, "gen_ai.usage.output_tokens": 7}
    tracer.start_span("chat", attributes=attributes).end()
provider.force_flush(600_000)
provider.shutdown()
""",
    "openinference-instrumentation": _TWICE
    + _PROVIDER
    + """
from openinference.instrumentation import OITracer, TraceConfig
tracer = OITracer(provider.get_tracer("app"), config=TraceConfig())
for number in range(count):
    model = ("small-model", "large-model")[number % 2]
    with tracer.start_as_current_span("llm", openinference_span_kind="llm") as span:
        span.set_attribute("llm.model_name", model)
        span.set_attribute("llm.input_messages.0.message.role", "user")
        span.set_attribute("llm.input_messages.0.message.content", f"Question {number}")
        span.set_attribute("llm.token_count.prompt", number)
        span.set_attribute("llm.token_count.completion", 7)
provider.force_flush(600_000)
provider.shutdown()
""",
    "langfuse": _TWICE
    + """
import os
os.environ["OTEL_BSP_MAX_QUEUE_SIZE"] = "20000"
from langfuse import Langfuse
client = Langfuse(public_key="pk", secret_key="sk", base_url=url, span_exporter=exporter, flush_at=512)
for number in range(count):
    model = ("small-model", "large-model")[number % 2]
    with client.start_as_current_observation(
        name="answer", as_type="generation", model=model, input=[{"role": "user", "content": f"Question {number}"}],
        usage_details={"input": number, "output": 7},
    ):
        pass
client.flush()
client.shutdown()
""",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("senders")
    (folder / "headway.toml").write_text(TOML)
    running = Running(folder)
    yield running
    assert "Traceback" not in running.stop()


def sent(running: Running, package: str, count: int, test: int) -> None:
    installed(package)
    door = Door(running, test)
    done = subprocess.run(
        [sys.executable, "-c", SENDERS[package], running.url, door.keys["app"], str(count)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    decisions = door.decisions(2 * count + 1)
    assert len(decisions) == count, done.stderr[-2000:]
    actions = [one.action for one in decisions]
    assert actions.count("small") == actions.count("large") == count // 2
    for one in decisions[: min(count, 50)]:
        signals = door.signals(one.id)
        number = signals["prompt_tokens"][0]
        assert number is not None
        assert signals["completion_tokens"][0] == 7.0
        assert one.action == ("small", "large")[int(number) % 2]
        assert one.situation.text in ("", f"Question {int(number)}")


@pytest.mark.parametrize(("package", "test"), [(name, place) for place, name in enumerate(SENDERS)])
def test_spans_of_real_packages_become_decisions(running: Running, package: str, test: int) -> None:
    sent(running, package, 60, test)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("package", "test"), [(name, 10 + place) for place, name in enumerate(SENDERS)])
def test_ten_thousand_spans_are_stored_once(running: Running, package: str, test: int) -> None:
    sent(running, package, 10_000, test)
