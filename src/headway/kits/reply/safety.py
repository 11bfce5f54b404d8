"""Safety detectors. A reply that one of them flags gets the signal `safety_flag`, and is never a positive example.

    flagged(text, RULES)                            # rules, matched by RE2 in linear time
    LinearDetector.read(folder).score(text)         # a small classifier: words and weights, no pickles
    detect = detector_of(["rules", "./toxic"], folder)   # what a task's settings name: text → whether it is flagged

A folder with detector.json is a `LinearDetector`; any other one is a text-classification folder of Hugging Face. That
one needs torch, so a server omits it (`light`): it reads replies before they are learned from.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.files import read_regular
from headway.nouns import errors

_LONGEST = 65_536  # characters that are matched
_UNSAFE = 0.5  # the probability from which a classifier flags
_BY_RULES = "rules"
_WORD = re.compile(r"[a-z0-9']+")
_BUCKETS = 1 << 14
RULES: Mapping[str, str] = {
    "weapon": r"\b(?:mix|combine|assemble|build|attach|ignite)\b[^.\n]{0,80}"
    r"\b(?:explosive|detonator|gunpowder|pipe bomb|nitroglycerin|fuse)\b",
    "threat": r"\bI(?:'ll| will| am going to)\s+(?:kill|hurt|beat|stab|shoot|burn)\b[^.\n]{0,40}"
    r"\b(?:you|him|her|them|your)\b",
    "self_harm": r"\b(?:take|swallow)\b[^.\n]{0,40}\b(?:overdose|whole bottle|enough pills)\b|\bkill yourself\b",
    "secret": r"\b(?:sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|ghp_[A-Za-z0-9]{30,})\b"
    r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----",
    "slur_frame": r"\b(?:all|those)\s+(?:women|men|jews|muslims|immigrants|foreigners|gays|blacks|whites)\s+"
    r"(?:are|should be)\s+(?:stupid|inferior|animals|killed|criminals|lazy)\b",
}


class Flag(NamedTuple):
    """What a detector saw."""

    detector: str
    score: float  # 0 to 1


def flags(text: str, rules: Mapping[str, str] = RULES) -> list[Flag]:
    """The rules that match a text."""
    readable = text[:_LONGEST].encode("utf-8", "replace").decode()
    return [Flag(name, 1.0) for name, pattern in rules.items() if _compiled(pattern).search(readable) is not None]


def flagged(text: str, rules: Mapping[str, str] = RULES) -> bool:
    return bool(flags(text, rules))


def detector_of(names: Sequence[str], folder: Path, *, light: bool = False) -> Callable[[str], bool]:
    """Whether one of these detectors flags a text. Folders are relative to `folder`; `light` omits those with torch."""
    scorers: list[Callable[[str], float]] = []
    for name in names:
        if name == _BY_RULES:
            scorers.append(lambda text: float(flagged(text)))
            continue
        place = (folder / Path(name).expanduser()).resolve()
        if (place / "detector.json").exists():
            scorers.append(_linear(place, (place / "detector.json").stat().st_mtime_ns).score)
        elif not place.is_dir():
            raise errors.InvalidInput(
                f"There is no safety detector {name!r}.",
                code="unknown_detector",
                hint='Use "rules", a folder of LinearDetector.write, or a text-classification folder.',
            )
        elif not light:
            scorers.append(_classifier(place).score)
    return lambda text: any(score(text) >= _UNSAFE for score in scorers)


@lru_cache(8)
def _linear(folder: Path, _changed: int) -> LinearDetector:
    return LinearDetector.read(folder)


@lru_cache(2)
def _classifier(folder: Path) -> TextClassifier:
    return TextClassifier(folder)


@lru_cache(256)
def _compiled(pattern: str) -> Any:
    import re2

    try:
        options = re2.Options()
        options.log_errors, options.max_mem = False, 8 << 20
        return re2.compile(f"(?im){pattern}", options)
    except (ValueError, TypeError, re2.error) as error:
        raise errors.InvalidInput(
            f"The safety rule {pattern!r:.100} cannot be used.",
            code="bad_safety_rule",
            hint="It is read by RE2: no lookaround and no back references.",
        ) from error


class LinearDetector:
    """A logistic classifier of hashed words and pairs of words. Its file is JSON and one array: nothing is executed."""

    def __init__(self, weights: NDArray[np.float32], bias: float) -> None:
        self.weights, self.bias = weights, bias

    def score(self, text: str) -> float:
        """The probability that a text is unsafe."""
        places = _features(text)
        total = self.bias + float(self.weights[places].sum()) / math.sqrt(max(1, len(places)))
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))

    @classmethod
    def learn(
        cls, texts: Sequence[str], unsafe: Sequence[bool], *, epochs: int = 30, rate: float = 0.5
    ) -> LinearDetector:
        """Learn from examples, by stochastic gradient steps in a fixed order."""
        weights, bias = np.zeros(_BUCKETS, np.float64), 0.0
        rows = [_features(text) for text in texts]
        for epoch in range(epochs):
            step = rate / (1.0 + 0.1 * epoch)
            for places, wrong in zip(rows, unsafe, strict=True):
                scale = 1.0 / math.sqrt(max(1, len(places)))
                total = bias + float(weights[places].sum()) * scale
                error = float(wrong) - 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))
                np.add.at(weights, places, step * error * scale)
                bias += step * error * 0.1
        return cls(weights.astype(np.float32), bias)

    def write(self, folder: Path) -> None:
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "detector.json").write_text(json.dumps({"kind": "linear", "bias": self.bias}), encoding="utf-8")
        (folder / "detector.safetensors").write_bytes(save({"weights": self.weights}))

    @classmethod
    def read(cls, folder: Path) -> LinearDetector:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            told = json.loads(read_regular(folder / "detector.json"))
            weights = load(read_regular(folder / "detector.safetensors"))["weights"]
            if weights.shape != (_BUCKETS,) or not np.isfinite(weights).all():
                raise ValueError("its weights have another shape, or are not finite")
            return cls(weights.astype(np.float32), float(told["bias"]))
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise errors.Damaged(
                f"The safety detector in {str(folder)!r} cannot be read: {error}.",
                code="detector_damaged",
                hint="It needs detector.json and detector.safetensors, as LinearDetector.write makes them.",
            ) from error


def _features(text: str) -> NDArray[np.int64]:
    words = _WORD.findall(text[:_LONGEST].lower())
    grams = [*words, *(f"{one} {two}" for one, two in pairwise(words))]
    return np.array([_bucket(gram) for gram in grams], dtype=np.int64)


@lru_cache(1 << 16)
def _bucket(gram: str) -> int:
    return int.from_bytes(hashlib.blake2b(gram.encode(), digest_size=4).digest(), "big") % _BUCKETS


class TextClassifier:
    """A text-classification folder of Hugging Face: the probability of the labels that are not harmless."""

    _HARMLESS = ("safe", "neutral", "non-toxic", "not_toxic", "ok", "label_0", "negative", "no_hate")

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            self._tokenizer: Callable[..., Any] = AutoTokenizer.from_pretrained(folder, **options)
            self._network: Any = AutoModelForSequenceClassification.from_pretrained(
                folder, use_safetensors=True, **options
            )
        except Exception as error:  # transformers may raise anything for a broken folder
            raise errors.Damaged(
                f"The text classifier in {str(folder)!r} cannot be loaded: {str(error).splitlines()[0][:200]}.",
                code="detector_damaged",
                hint="It needs config.json, tokenizer.json and *.safetensors of a sequence classifier.",
            ) from error
        self._network.eval()
        labels = {int(place): str(name).lower() for place, name in self._network.config.id2label.items()}
        self._unsafe = [place for place, name in labels.items() if name not in self._HARMLESS]

    def score(self, text: str) -> float:
        import torch

        with torch.inference_mode():
            encoded = self._tokenizer([text], truncation=True, return_tensors="pt")
            shares = self._network(**encoded).logits.softmax(-1)[0]
        return float(shares[self._unsafe].sum())
