"""Mistakes with upstreams end in one sentence that names the cure, in the message that SDKs show and in `doctor`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.terminal import headway as run
from tests.kits.proxy.conftest import Proxy
from tests.kits.proxy.upstream import Upstream

TOML = """\
[tasks.missing]
actions = ["smal"]
[tasks.half]
actions = ["small", "smal"]
[tasks.unset]
actions = ["locked"]
[tasks.wrong]
actions = ["old"]
[tasks.down]
actions = ["off"]
[upstreams.small]
url = "{url}"
model = "small-model"
[upstreams.locked]
url = "{url}"
model = "large-model"
key_env = "NO_SUCH_KEY_HERE"
[upstreams.old]
url = "{wrong}"
model = "retired-model"
[tasks.refused]
actions = ["closed"]
[upstreams.closed]
url = "{closed}"
model = "any"
[upstreams.off]
url = "http://127.0.0.1:9/v1"
model = "any"
"""


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory, running_upstream: Upstream) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("mistaken")
    toml = TOML.format(
        url=running_upstream.url(), wrong=running_upstream.url("status-404"), closed=running_upstream.url("status-401")
    )
    (folder / "headway.toml").write_text(toml)
    running = Proxy(folder, {})
    yield running
    assert "Traceback" not in running.stop()


@pytest.mark.parametrize(
    ("model", "cure"),
    [
        ("headway/missing", "[upstreams.smal]"),
        ("headway/unset", "NO_SUCH_KEY_HERE"),
        ("locked", "NO_SUCH_KEY_HERE"),
        ("headway/wrong", "Is 'retired-model' a model of that server? Correct model or url in [upstreams.old]"),
        ("headway/refused", "key_env in [upstreams.closed]"),
        ("headway/mising", "Did you mean 'missing'?"),
        ("smal", "Did you mean 'small'?"),
        ("headway/down", "Start that server, or correct url in [upstreams.off]"),
    ],
)
def test_a_mistake_with_an_upstream_names_its_cure(mistaken: Proxy, model: str, cure: str) -> None:
    answer = mistaken.chat(model=model)
    assert answer.status_code >= 400
    assert cure in answer.json()["error"]["message"]


def test_doctor_names_the_same_cures(mistaken: Proxy) -> None:
    done = run("-C", mistaken.folder, "doctor")
    assert "NO_SUCH_KEY_HERE" in done.out
    assert "'smal'" in done.out
