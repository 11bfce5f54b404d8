"""Bundles are untrusted input: complete and verified, or refused."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headway.nouns.checkpoint import Header, PolicyRef
from headway.nouns.errors import Damaged, HeadwayError, InvalidInput, UnknownName
from headway.promote import bundle
from headway.promote.registry import Registry

TENSORS = {"weights": np.arange(6.0).reshape(2, 3), "counts": np.array([1, 2], dtype=np.int64)}


def header(**changes):
    fields = {
        "task": "route", "family": "bandit", "kind": "choice", "encoder": "hashing-1-w128", "knobs": {"ridge": 1.0},
        "tensors": bundle.specs(TENSORS), "parameters": 8, "trained_on": {"upto": 5}, "split": {}, "metrics": {},
        "baselines": {}, "seed": 7, "versions": {"python": "3"},
    }  # fmt: skip
    return Header(**{**fields, **changes})


def store(folder, **changes):
    digest = bundle.write(folder, header(**changes), TENSORS)
    return digest, folder / digest


def forge(folder, head: bytes, weights: bytes) -> str:
    """A bundle whose hash is right and whose content is whatever the attacker likes."""
    digest = bundle.digest_of(head, weights)
    (folder / digest).mkdir(parents=True)
    (folder / digest / "header.json").write_bytes(head)
    (folder / digest / "weights.safetensors").write_bytes(weights)
    return digest


def test_a_bundle_is_read_back_bit_for_bit(tmp_path):
    digest, _ = store(tmp_path)
    back, tensors = bundle.read(tmp_path, digest)
    assert back == header(tensors=back.tensors)
    assert tuple(back.tensors) == bundle.specs(TENSORS)
    assert all(np.array_equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert tensors["weights"].dtype == np.float64


def test_the_same_content_is_one_bundle_and_another_header_is_another(tmp_path):
    first, _ = store(tmp_path)
    assert store(tmp_path)[0] == first
    assert store(tmp_path, seed=8)[0] != first
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["header.json", "weights.safetensors"])
@pytest.mark.parametrize("place", [0, 9, -1])
def test_one_changed_byte_is_detected(tmp_path, name, place):
    digest, folder = store(tmp_path)
    content = bytearray((folder / name).read_bytes())
    content[place] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(Damaged) as error:
        bundle.read(tmp_path, digest)
    assert error.value.code == "bundle_hash_mismatch"


@pytest.mark.parametrize("name", ["header.json", "weights.safetensors"])
def test_a_missing_file_is_named(tmp_path, name):
    digest, folder = store(tmp_path)
    (folder / name).unlink()
    with pytest.raises(Damaged) as error:
        bundle.read(tmp_path, digest)
    assert name in error.value.message


def weights_of(table: object, buffer: bytes) -> bytes:
    text = json.dumps(table).encode().replace(b"9" * 19, b"9" * 100_000)
    return struct.pack("<Q", len(text)) + text + buffer


DIGITS = int("9" * 19)  # written with 100,000 digits
GOOD = weights_of({"weights": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}, struct.pack("<d", 1.0))
SPEC = {"tensors": [{"name": "weights", "dtype": "F64", "shape": [1]}]}


@pytest.mark.parametrize(
    "weights",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 10**9) + b"{}",
        weights_of([], b""),
        weights_of({"weights": 3}, b""),
        weights_of({"weights": {"dtype": "F64", "shape": [1], "data_offsets": [0, 9]}}, b"\0" * 9),
        weights_of({"weights": {"dtype": "F64", "shape": [2**62, 4], "data_offsets": [0, 8]}}, b"\0" * 8),
        weights_of({"weights": {"dtype": "F64", "shape": [-1], "data_offsets": [0, -8]}}, b""),
        weights_of({"weights": {"dtype": "OBJ", "shape": [1], "data_offsets": [0, 8]}}, b"\0" * 8),
        weights_of({"weights": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}}, b"\0" * 16),
        weights_of({"weights": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}, b"\0" * 16),
        weights_of(
            {"weights": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}, struct.pack("<d", float("nan"))
        ),
        weights_of({f"t{i}": {} for i in range(5000)}, b""),
        weights_of({"weights": {"dtype": "F64", "shape": [1] * 70, "data_offsets": [0, 8]}}, b"\0" * 8),
        weights_of({"weights": {"dtype": "F64", "shape": "ab", "data_offsets": [0, 8]}}, b"\0" * 8),
        weights_of({"weights": {"dtype": "F64", "shape": [DIGITS], "data_offsets": [0, 8]}}, b"\0" * 8),
        weights_of({"weights": {"dtype": "F64", "shape": [1], "data_offsets": [DIGITS, 8]}}, b"\0" * 8),
        weights_of({"other": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}, b"\0" * 8),
    ],
)
def test_a_forged_weights_file_is_refused(tmp_path, weights):
    _, folder = store(tmp_path)
    head = json.loads((folder / "header.json").read_text())
    digest = forge(tmp_path, json.dumps({**head, **SPEC}).encode(), weights)
    with pytest.raises(Damaged):
        bundle.read(tmp_path, digest)


@pytest.mark.parametrize("head", [b"", b"[]", b"{}", b"[" * 100_000, b'{"task": 3}', b"\xff\xfe", b"9" * 100_000])
def test_a_forged_header_is_refused(tmp_path, head):
    digest = forge(tmp_path, head, GOOD)
    with pytest.raises(Damaged):
        bundle.read(tmp_path, digest)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_either_load_or_are_refused(tmp_path, data):
    _, folder = store(tmp_path)
    head = bytearray((folder / "header.json").read_bytes())
    weights = bytearray((folder / "weights.safetensors").read_bytes())
    for content in (head, weights):
        for _ in range(data.draw(st.integers(0, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    digest = bundle.digest_of(bytes(head), bytes(weights))
    if not (tmp_path / digest).exists():
        forge(tmp_path, bytes(head), bytes(weights))
    try:
        _, tensors = bundle.read(tmp_path, digest)
    except Damaged:
        return
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())


def test_references_are_short_and_unambiguous(tmp_path):
    registry = Registry(tmp_path)
    refs = [str(registry.add(header(seed=seed), TENSORS)) for seed in range(40)]
    assert len(set(refs)) == 40
    assert all(registry.find(str(registry.ref(digest))) == digest for digest in registry.digests())
    with pytest.raises(UnknownName):
        registry.find("bandit@ffffffffffff")
    with pytest.raises(UnknownName):
        registry.find("cql@" + next(iter(registry.digests()))[:12])


@pytest.mark.parametrize(
    "text", ["", "bandit", "bandit@", "bandit@xyz", "Bandit@abcd", "a/b@abcd", "bandit@abcd\n", "bandit@abc"]
)
def test_an_invalid_reference_is_refused(text):
    with pytest.raises(InvalidInput):
        PolicyRef.parse(text)


def test_an_unwritable_folder_is_reported_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadwayError) as error:
        bundle.write(tmp_path / "file", header(), TENSORS)
    assert error.value.code == "bundle_not_written"


# -- verified once


@pytest.fixture
def hashed(monkeypatch):
    """The digests that were computed, in order. Files count as old at once: no test waits for a clock."""
    monkeypatch.setattr(bundle, "_FRESH_NS", -1)
    computed = []
    compute = bundle.digest_of

    def digest_of(header, weights):
        computed.append(compute(header, weights))
        return computed[-1]

    monkeypatch.setattr(bundle, "digest_of", digest_of)
    return computed


def test_a_registry_hashes_untouched_files_once(tmp_path, hashed):
    digest, _ = store(tmp_path)
    hashed.clear()
    registry = Registry(tmp_path)
    first = registry.load(digest, task="route")
    again = registry.load(digest, task="route")
    assert hashed == [digest]
    assert first[0] == again[0]
    assert all(np.array_equal(first[1][name], again[1][name]) for name in TENSORS)
    Registry(tmp_path).load(digest, task="route")
    assert hashed == [digest, digest], "another registry verifies for itself"


@pytest.mark.parametrize("name", ["header.json", "weights.safetensors"])
@pytest.mark.parametrize("how", ["in place", "by another file"])
def test_damage_after_verification_is_detected(tmp_path, hashed, name, how):
    digest, folder = store(tmp_path)
    registry = Registry(tmp_path)
    registry.load(digest, task="route")
    before = (folder / name).stat()
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    target = folder / name if how == "in place" else folder / "other"
    target.write_bytes(content)
    target.replace(folder / name)
    os.utime(folder / name, ns=(before.st_atime_ns, before.st_mtime_ns + (how == "in place")))
    with pytest.raises(Damaged) as error:
        registry.load(digest, task="route")
    assert error.value.code == "bundle_hash_mismatch"


def test_a_file_that_was_just_written_is_hashed_again(tmp_path, hashed, monkeypatch):
    monkeypatch.setattr(bundle, "_FRESH_NS", 3_600 * 10**9)
    digest, _ = store(tmp_path)
    hashed.clear()
    registry = Registry(tmp_path)
    for _ in range(2):
        registry.load(digest, task="route")
    assert hashed == [digest, digest]


def test_the_number_of_remembered_bundles_is_bounded(tmp_path, hashed, monkeypatch):
    monkeypatch.setattr(bundle, "_REMEMBERED", 2)
    digests = [store(tmp_path, seed=seed)[0] for seed in range(3)]
    registry = Registry(tmp_path)
    for digest in digests:
        registry.load(digest, task="route")
    hashed.clear()
    for digest in reversed(digests):
        registry.load(digest, task="route")
    assert hashed == [digests[0]], "the one that was verified first is forgotten"


# -- removed


def test_a_removed_bundle_is_gone_completely_and_reading_it_fails_clearly(tmp_path):
    digest, folder = store(tmp_path)
    assert bundle.remove(tmp_path, digest)
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []
    assert not bundle.remove(tmp_path, digest)
    for read in (bundle.read, bundle.read_header):
        with pytest.raises(Damaged) as error:
            read(tmp_path, digest)
        assert error.value.code == "bundle_missing"
        assert "it is missing" in error.value.message


def test_a_bundle_that_is_being_read_is_not_removed(tmp_path):
    digest, folder = store(tmp_path)
    with bundle._held(folder):
        assert not bundle.remove(tmp_path, digest)
        assert bundle.read(tmp_path, digest)
    assert bundle.remove(tmp_path, digest)


def test_leftovers_of_an_interrupted_removal_are_deleted_by_the_next(tmp_path):
    (killed, folder), (digest, _) = store(tmp_path), store(tmp_path, seed=8)
    folder.rename(tmp_path / f".gone-{killed}")
    assert list(Registry(tmp_path).digests()) == [digest]
    assert bundle.remove(tmp_path, digest)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_deleted_an_hour_later_by_the_next(tmp_path):
    killed, writing = tmp_path / ".new-killed", tmp_path / ".new-writing"
    for folder in (killed, writing):
        folder.mkdir()
        (folder / bundle.WEIGHTS).write_bytes(b"half")
    os.utime(killed, (0, 0))
    digest, _ = store(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {writing.name, digest}
    os.utime(writing, (0, 0))
    store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [digest], "also if the bundle exists already"
