"""A local language model from any Hugging Face folder, with exact log-probabilities: generates, streams and scores.

batch      many requests at once: they join and leave a running batch between two tokens
engines    openvino and transformers: the next token of every row, with an adapter
sampling   temperature, top-p, the draw, both log-probabilities
tokens     prompts into tokens, tokens into text
formats    what a smaller number format changes
device     device and number format

Importing this module imports torch and transformers.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer

from headway.files import open_regular
from headway.kits.models import Completion, Delta, Prompt, Scored
from headway.kits.reply.adapters import read_peft
from headway.kits.reply.batch import Request, RunningBatch
from headway.kits.reply.device import Where, where
from headway.kits.reply.engines.transformers import TransformersEngine
from headway.kits.reply.loading import (
    SAFELY,
    check_engine,
    check_files,
    check_supported,
    ends_of,
    fast_engine,
    network_of,
    quiet,
)
from headway.kits.reply.room import check_room
from headway.kits.reply.tokens import checked, fitted
from headway.nouns import errors

COMPRESSED = ("float16", "int8")  # formats of weights that openvino has on a CPU
_BYTES = {"float32": 4, "float16": 2, "int8": 1}
_SCORED_BYTES = 256 << 20  # logits that `score` holds at once


class LanguageModel:
    """A local language model, as a `Generator`.

    model = LanguageModel.load(Path("smollm2"))
    model.generate([Prompt(text="The capital of France is", max_tokens=5, temperature=0)])[0].text     # " Paris…"

    The window must fit a prompt and its max_tokens. A conversation that is too long loses its oldest turns (never the
    system's or the last one; the completion counts them); a text that is too long is refused.
    """

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        *,
        name: str,
        at: Where,
        folder: Path,
        engine: Any = None,
        network: Any = None,
    ) -> None:
        self.name = name
        self.where = at
        self.tokenizer = tokenizer
        self.folder = folder
        text = config.get_text_config()
        self.window = int(getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", 0) or 2048)
        self.vocabulary = int(text.vocab_size)
        self.ends = ends_of(folder, config, tokenizer)
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(self.ends, default=0)
        heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
        width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        self.bytes_per_token = 2 * text.num_hidden_layers * heads * width * at.dtype.itemsize
        self._adapters: dict[str, Path] = {}
        self._bytes_each = 4  # of a weight in memory
        if network is not None:
            self.reference = TransformersEngine(network)
        self.engine: Any = self.reference if engine is None else engine

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        name: str = "",
        device: str = "auto",
        dtype: str = "auto",
        engine: str = "auto",
        rank: int = 0,
        threads: int = 0,
        device_map: str = "",
    ) -> LanguageModel:
        """Load a folder with config.json, tokenizer.json and *.safetensors. Runs no code from it.

        `engine`: "openvino", "transformers", or "auto": the first where it covers the model, else the second. `rank`:
        of adapters to come, so that the first one is taken without delay. `device_map`: spreads the weights over many
        GPUs ("auto", "balanced", "sequential").
        """
        compressed = dtype in COMPRESSED and where(device).device.type == "cpu"
        weights, at = dtype if compressed else "float32", where(device, "auto" if compressed else dtype)
        check_files(folder)
        if at.device.type == "cpu":
            check_room(folder, bytes_each=_BYTES[weights])
        with quiet(folder):
            config = AutoConfig.from_pretrained(folder, **SAFELY)
            check_supported(config, folder)
            tokenizer: Any = AutoTokenizer.from_pretrained(folder, **SAFELY)
            fast = fast_engine(folder, engine, rank, threads, weights) if at.device.type == "cpu" else None
            if fast is None:
                check_engine(folder, engine, weights)
                network = network_of(folder, at, device_map)
                return cls(config, tokenizer, name=name or folder.name, at=at, folder=folder, network=network)
        model = cls(config, tokenizer, name=name or folder.name, at=at, folder=folder, engine=fast)
        model._bytes_each = _BYTES[weights]
        return model

    @cached_property
    def reference(self) -> TransformersEngine:
        """The same weights in transformers: for scores, and as the engine where there is no other."""
        with quiet(self.folder):
            reference = TransformersEngine(network_of(self.folder, self.where))
        for adapter, folder in self._adapters.items():
            reference.add_adapter(adapter, folder)
        return reference

    @property
    def network(self) -> Any:
        """The network of transformers, for training."""
        return self.reference.network

    # -- adapters

    @property
    def adapters(self) -> tuple[str, ...]:
        return tuple(self._adapters)

    def add_adapter(self, name: str, folder: Path) -> None:
        """Take the adapter in a PEFT folder beside the others, and probe it. Running batches keep theirs."""
        tensors, extra = read_peft(folder)
        if extra.get("base") and extra["base"] != self.weights_hash:
            raise errors.Conflict(
                f"The adapter was trained on other weights than those of {self.name!r}.",
                code="adapter_of_another_base",
                hint="Use the base that it was trained on, or learn again on this one.",
            )
        self._adapters[name] = folder
        fast: Any = self.engine
        if fast is not self.__dict__.get("reference"):
            fast.add_adapter(name, tensors, extra["alpha"] / extra["r"], extra["r"])
        if "reference" in self.__dict__:
            self.reference.add_adapter(name, folder)
        try:
            self._probe(name)
        except BaseException:
            self.drop_adapter(name)
            raise

    def can_fuse(self, name: str) -> bool:
        """Whether `fuse` would do something: not if the engine cannot, or has it already."""
        return self.engine.fusible and name not in self.engine.fused

    def fuse(self, name: str) -> bool:
        """Compile an adapter ("" is the base alone) into weights of its own: slow, and then faster than as an input.

        False if nothing was compiled: see `can_fuse`, or less than four copies of the weights fit in the free memory.
        May run in another thread; running replies go on with it.
        """
        if not self.can_fuse(name):
            return False
        try:
            check_room(self.folder, bytes_each=4 * self._bytes_each)  # it takes two copies, and leaves two to others
        except errors.Unavailable:
            return False
        self.engine.fuse(name)
        return True

    def _probe(self, adapter: str) -> None:
        """One step with the adapter: its numbers are finite."""
        ids = torch.full((1, 4), self.pad, device=self.where.device)
        places = torch.arange(4, device=self.where.device)[None]
        with torch.inference_mode():
            logits = self.forward(ids, places, None, self.new_cache(adapter))
        if not bool(torch.isfinite(logits).all()):
            raise errors.Damaged(
                "The adapter's first token has no finite probability.",
                code="adapter_damaged",
                hint="Learn it again, or roll back.",
            )

    def drop_adapter(self, name: str) -> None:
        if self._adapters.pop(name, None) is None:
            return
        self.engine.drop_adapter(name)
        if "reference" in self.__dict__ and self.reference is not self.engine:
            self.reference.drop_adapter(name)

    @property
    def model(self) -> str:
        return self.name

    @cached_property
    def weights_hash(self) -> str:
        """sha256 of the folder's weights, to identify the model of a reply. Reads them again (about a second)."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("*.safetensors")):
            with os.fdopen(open_regular(path, follow=True), "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    @cached_property
    def template_hash(self) -> str:
        return hashlib.sha256(json.dumps(self.tokenizer.chat_template).encode()).hexdigest()

    # -- questions

    def request(self, prompt: Prompt) -> Request:
        """The prompt as tokens that fit, ready for a batch."""
        tokens, dropped = fitted(self.tokenizer, checked(prompt), self.window)
        size = self.vocabulary
        if not all(0 <= token < size for token in tokens):
            raise errors.InvalidInput(
                f"A token is outside the model's vocabulary of {size}.",
                code="bad_prompt",
                hint="Use tokens of this model.",
            )
        return Request(prompt, tokens, dropped)

    def generate(self, prompts: Sequence[Prompt], *, adapter: str = "") -> list[Completion]:
        """One reply per prompt, generated in one batch."""
        requests = [self.request(prompt) for prompt in prompts]
        batch, done = RunningBatch(self, adapter=adapter), {}
        for request in requests:
            batch.add(request)
        while batch.busy:
            done.update({id(owner): delta.completion for owner, delta in batch.step() if delta.completion})
        return [done[id(request)] for request in requests]

    def stream(self, prompt: Prompt, *, adapter: str = "") -> Iterator[Delta]:
        """A reply, delta by delta; closing the iterator stops the generation."""
        batch = RunningBatch(self, adapter=adapter)
        batch.add(self.request(prompt))
        while batch.busy:
            yield from (delta for _, delta in batch.step())

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False, adapter: str = "") -> Scored:
        """The log-probability of every token of a reply at temperature 1; `ended` includes the end-of-text token."""
        return self.scores([(prompt, reply)], ended=ended, adapter=adapter)[0]

    def scores(
        self, pairs: Sequence[tuple[Prompt, str | Sequence[int]]], *, ended: bool = False, adapter: str = ""
    ) -> list[Scored]:
        """`score` for many replies, in batches."""
        rows = [self._tokenised(prompt, reply, ended) for prompt, reply in pairs]
        scores: dict[int, Scored] = {}
        order = sorted(range(len(rows)), key=lambda at: len(rows[at][0]) + len(rows[at][1]))
        while order:
            taken, longest = [order.pop()], 0
            while order:
                longest = max(len(rows[at][1]) for at in (*taken, order[-1])) + 1
                if (len(taken) + 1) * longest * self.vocabulary * 4 > _SCORED_BYTES:
                    break
                taken.append(order.pop())
            scores.update(zip(taken, self._scored([rows[at] for at in taken], adapter), strict=True))
        return [scores[at] for at in range(len(rows))]

    def _tokenised(self, prompt: Prompt, reply: str | Sequence[int], ended: bool) -> tuple[list[int], list[int]]:
        tokens = self.tokenizer(reply, add_special_tokens=False)["input_ids"] if isinstance(reply, str) else list(reply)
        if ended:
            tokens = [
                *tokens,
                self.tokenizer.eos_token_id if self.tokenizer.eos_token_id is not None else min(self.ends),
            ]
        if not tokens:
            raise errors.InvalidInput(
                "The reply has no tokens.", code="bad_prompt", hint="Pass a reply that is not empty."
            )
        before, _ = fitted(self.tokenizer, checked(prompt), self.window + prompt.max_tokens - len(tokens))
        return before, tokens

    @torch.inference_mode()
    def _scored(self, rows: list[tuple[list[int], list[int]]], adapter: str) -> list[Scored]:
        device = self.where.device
        longest = max(len(before) + len(reply) for before, reply in rows)
        pads = torch.tensor([longest - len(before) - len(reply) for before, reply in rows], device=device)
        ids = torch.tensor(
            [[self.pad] * (longest - len(before) - len(reply)) + before + reply for before, reply in rows],
            device=device,
        )
        places = torch.arange(longest, device=device)[None]
        mask = places >= pads[:, None]
        keep = min(longest, max(len(reply) for _, reply in rows) + 1)
        positions = (places - pads[:, None]).clamp(min=0)
        logits = self.reference.plain(ids, positions, mask if bool(pads.any()) else None, None, keep, adapter)
        scores = []
        for row, (_, reply) in enumerate(rows):
            part = logits[row, -len(reply) - 1 : -1].float()  # [token, vocabulary]: the position before each token
            chosen = part.gather(1, torch.tensor(reply, device=device)[:, None])[:, 0]
            scores.append(Scored(tuple(reply), tuple((chosen - part.logsumexp(-1)).tolist())))
        return scores

    # -- the network

    def new_cache(self, adapter: str) -> Any:
        """The empty cache of a batch that is generated with an adapter."""
        if adapter and adapter not in self._adapters:
            raise errors.UnknownName(f"The adapter {adapter[:12]!r} is not loaded.", code="adapter_missing")
        return self.engine.cache(adapter)

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Any
    ) -> torch.Tensor:
        """Logits after the last position of every row, [row, vocabulary]."""
        logits: torch.Tensor = self.engine.forward(ids, positions, mask, cache)
        return logits
