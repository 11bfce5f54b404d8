"""What a promotion costs: the bundle is hashed once, though it is checked first and served afterwards."""

from __future__ import annotations

import pytest

from headway.project import Project
from headway.promote import bundle


@pytest.mark.engines("sqlite", why="bundles are files on both")
def test_a_promotion_hashes_a_bundle_at_most_once(tmp_path, environ, monkeypatch):
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["a", "b"]\ngate = "off"\n')
    monkeypatch.setattr(bundle, "_FRESH_NS", -1)  # files count as old at once: no test waits for a clock
    hashed = []
    compute = bundle.digest_of
    with Project(tmp_path, environ=environ, seed=1) as project:
        for _ in range(40):
            made = project.decide("route", "hello")
            project.signal(made.id, reward=float(made.action == "a"))
        policy = project.learn("route")
        monkeypatch.setattr(bundle, "digest_of", lambda *parts: hashed.append(compute(*parts)) or hashed[-1])
        entry = project.promote(policy)
        assert project.decide("route", "hello").policy == policy
    assert hashed in ([], [entry.policy_hash])  # not at all if it was read before
