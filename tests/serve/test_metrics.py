"""/metrics, as Prometheus reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from headway.serve.metrics import Metrics, WorkerMetrics, metrics_text
from tests.serve.conftest import Running

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics.txt"


def parsed(text: bytes | str) -> list[Metric]:
    return list(text_string_to_metric_families(text if isinstance(text, str) else text.decode()))


def shape(text: bytes | str) -> list[str]:
    """Type, name and label names of every line."""
    return sorted(
        {
            " ".join([family.type, sample.name, *sorted(sample.labels)])
            for family in parsed(text)
            for sample in family.samples
        }
    )


def values(text: bytes | str, name: str) -> dict[tuple[str, ...], float]:
    """The numbers of a metric by the values of its labels, in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in parsed(text)
        for sample in family.samples
        if sample.name == name
    }


def busy(worker: int | None = None) -> Metrics:
    metrics = Metrics(worker)
    for seconds in (0.0003, 0.0005, 0.004, 9.0):
        metrics.request("/v1/decisions", 201, seconds)
    metrics.request("(none)", 404, 0.25)
    metrics.count("decisions", "route")
    metrics.count("signals", "all", 3)
    metrics.gauge("queued_writes", "Writes that wait.", lambda: 2)
    return metrics


@pytest.mark.kits("*")
def test_names_types_and_labels_of_metrics_do_not_change(served: Callable[..., Running]) -> None:
    expected = GOLDEN.read_text("utf-8").splitlines()
    running = served()
    made = running.decide().json()["id"]
    running.client.post(f"/v1/decisions/{made}/signals", json={"reward": 1.0})
    running.client.get("/v1/models")  # the proxy counts its calls from its first use
    assert shape(running.client.get("/metrics").text) == expected


def test_a_histogram_counts_up_to_each_edge() -> None:
    text = metrics_text([busy().families()])
    buckets = values(text, "headway_request_seconds_bucket")
    by_edge = {le: count for (le, route), count in buckets.items() if route == "/v1/decisions"}
    assert (by_edge["0.0005"], by_edge["0.002"], by_edge["0.005"], by_edge["5.0"], by_edge["+Inf"]) == (2, 2, 3, 3, 4)
    assert values(text, "headway_request_seconds_count")["/v1/decisions",] == 4
    assert values(text, "headway_request_seconds_sum")["/v1/decisions",] == pytest.approx(9.0048)


def test_workers_have_their_own_label_and_share_one_heading() -> None:
    text = metrics_text([busy(0).families(), busy(1).families()])
    assert values(text, "headway_requests_total") == {
        (route, status, worker): count
        for worker in "01"
        for route, status, count in (("/v1/decisions", "201", 4.0), ("(none)", "404", 1.0))
    }
    heads = [line for line in text.decode().splitlines() if line.startswith("#")]
    assert len(heads) == len(set(heads))
    assert "# TYPE headway_requests_total counter" in heads


def test_a_label_may_hold_any_character() -> None:
    metrics = Metrics()
    name = 'a"b\\c\nd½'
    metrics.count("decisions", name)
    assert values(metrics_text([metrics.families()]), "headway_decisions_total") == {(name,): 1.0}


def test_the_number_of_counted_tasks_is_bounded() -> None:
    metrics = Metrics()
    for number in range(1500):
        metrics.count("decisions", f"task-{number}")
    counted = values(metrics_text([metrics.families()]), "headway_decisions_total")
    assert len(counted) == 1002
    assert sum(counted.values()) == 1500


def test_workers_read_the_metrics_of_the_others(tmp_path: Path) -> None:
    zero, one = (WorkerMetrics(tmp_path, 8765, number, 2) for number in range(2))
    assert zero.others() == []
    written = busy(1).families()
    one.write(written)
    assert zero.others() == [written]
    assert one.others() == []
    (tmp_path / "metrics.8765.1.json").write_bytes(b'{"half": ')
    assert zero.others() == []
    one.write(written)
    os.utime(tmp_path / "metrics.8765.1.json", (0, 0))
    assert zero.others() == [], "a worker that stopped writing is omitted"
    WorkerMetrics.remove(tmp_path, 8765)
    assert not list(tmp_path.iterdir())
