from __future__ import annotations

import numpy as np
import pytest

from headway.nouns.errors import InvalidInput
from headway.prove.about import About
from headway.prove.evidence import from_log
from headway.prove.log import Log
from tests.prove.logs import small_log

GOOD = {
    "reward": [1.0, 0.0],
    "action": [0, 1],
    "logged": [[0.5, 0.5], [0.5, 0.5]],
    "target": [[1.0, 0.0], [1.0, 0.0]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logged": [[0.5, 0.5], [1.0, 0.0]]}, r"Row 1 .*propensity of the chosen action is .*0.0.*not in \(0, 1\]"),
        ({"logged": [[0.5, 0.4], [0.5, 0.5]]}, r"Row 0 .*probabilities of logged sum to 0.9"),
        ({"target": [[1.0, 0.0], [0.7, 0.7]]}, r"Row 1 .*probabilities of target sum to 1.4"),
        ({"target": [[1.0, 0.0], [1.5, -0.5]]}, r"Row 1 .*not a list of probabilities"),
        ({"target": [[1.0, 0.0], [float("nan"), 1.0]]}, r"Row 1 .*not a list of probabilities"),
        ({"action": [0, 2]}, r"Row 1 .*action 2 is not a column of 2 arms"),
        ({"reward": [1.0, float("inf")]}, r"Row 1 .*not finite"),
        ({"status": [0, 7]}, r"Row 1 .*status 7"),
        ({"order": [5, 4]}, r"Row 1 .*order 4 comes after 5"),
        ({"features": [[1.0], [float("nan")]]}, "finite numbers"),
        ({"keys": ["a"]}, r"'keys' has the shape \(1,\)"),
        ({"arms": ("a",)}, "2 columns and 1 arms"),
        ({"reward": [[1.0], [0.0]]}, "'reward' has the shape"),
    ],
)
def test_impossible_values_are_refused_with_their_row(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        Log.of(**{**GOOD, **change})  # type: ignore[arg-type]
    assert raised.value.code == "bad_log"


def test_errors_number_rows_by_their_place_in_the_whole_log() -> None:
    with pytest.raises(InvalidInput, match="Row 101 "):
        Log.of(**{**GOOD, "action": [0, 9]}, first_row=100)  # type: ignore[arg-type]


def test_chunks_with_other_columns_are_refused() -> None:
    log = small_log(50, 0)
    other = Log.of(reward=[1.0], action=[0], logged=[[0.5, 0.5]], target=[[0.5, 0.5]])
    with pytest.raises(InvalidInput, match="the log starts with"):
        from_log([log, other], About(task="t", candidate="c@1", against="d@0"))


def test_chunks_out_of_order_are_refused() -> None:
    log = small_log(100, 0)
    with pytest.raises(InvalidInput, match="begins at order 1 after 100"):
        from_log([log.rows(50, 100), log.rows(0, 50)], About(task="t", candidate="c@1", against="d@0"))


def test_the_same_rows_in_other_chunks_give_the_same_evidence() -> None:
    log = small_log(2_000, 1, keys=np.repeat(["a", "b", "c", "d"], 500), guards={"cost": np.linspace(0, 1, 2_000)})
    about = About(task="t", candidate="c@1", against="d@0")
    whole = from_log([log], about)
    cut = from_log([log.rows(a, b) for a, b in ((0, 7), (7, 333), (333, 1999), (1999, 2000))], about)
    assert cut.data_hash == whole.data_hash
    assert cut.id == whole.id
    assert cut.statistic == pytest.approx(whole.statistic, rel=1e-9)
    assert cut.threshold == pytest.approx(whole.threshold, rel=1e-9)
    assert [guard.difference.value for guard in cut.guards] == pytest.approx(
        [guard.difference.value for guard in whole.guards], abs=1e-9
    )
    assert from_log([log], about) == whole


def test_another_row_gives_another_data_hash() -> None:
    about = About(task="t", candidate="c@1", against="d@0")
    assert from_log([small_log(300, 1)], about).data_hash != from_log([small_log(300, 2)], about).data_hash
