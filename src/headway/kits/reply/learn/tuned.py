"""A local language model with an adapter on it, ready to train: base, tokeniser, scorer and general texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from headway.kits.models import Completion, Prompt, Turn
from headway.kits.reply.adapters import write_peft
from headway.kits.reply.learn.lora import Adapter
from headway.kits.reply.learn.scorer import ReplyScorer, TokenRow
from headway.kits.reply.model import LanguageModel
from headway.kits.reply.probes import TRAINING
from headway.kits.reply.tokens import rendered


class TunedModel:
    """The base, which never changes, and the adapter that is trained.

    tuned = TunedModel.load(folder, rank=16, alpha=32, seed=0)
    tuned.scorer.rows(rows).logprobs         # with the adapter
    tuned.generate(prompts)                  # with the adapter, merged for the time of the call
    """

    def __init__(self, model: LanguageModel, *, rank: int, alpha: float, seed: int) -> None:
        self.model, self.network, self.tokenizer = model, model.network, model.tokenizer
        self.base_hash, self.template_hash = model.weights_hash, model.template_hash
        self.adapter = Adapter(self.network, rank=rank, alpha=alpha, seed=seed)
        self.scorer = ReplyScorer(self.network, pad=model.pad)
        self.start: Mapping[str, Any] = {}  # the adapter that training continues from

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        rank: int = 16,
        alpha: float = 32.0,
        seed: int = 0,
        device: str = "auto",
        dtype: str = "auto",
        device_map: str = "",
    ) -> TunedModel:
        model = LanguageModel.load(  # the weights are trained, so it is not a compiled graph
            folder, device=device, dtype=dtype, engine="transformers", device_map=device_map
        )
        return cls(model, rank=rank, alpha=alpha, seed=seed)

    def continue_from(self, tensors: Mapping[str, Any]) -> None:
        """Start from an adapter that was trained before."""
        self.adapter.load(tensors)
        self.start = dict(tensors)

    def start_again(self, seed: int) -> None:
        """A new adapter, as after loading."""
        self.adapter.reset(seed)
        self.start = {}

    def row(self, question: str, answer: str, *, system: str = "") -> TokenRow:
        """A question and an answer with its end, as tokens in the model's template."""
        turns = [Turn("system", system)] if system else []
        turns.append(Turn("user", question))
        return TokenRow(self.prompt_tokens(turns), (*self.reply_tokens(answer), self.end))

    def prompt_tokens(self, turns: Sequence[Turn]) -> tuple[int, ...]:
        if not self.tokenizer.chat_template:
            text = "\n\n".join(turn.content for turn in turns) + "\n\n"
            return tuple(self.tokenizer(text, add_special_tokens=True)["input_ids"])
        return tuple(rendered(self.tokenizer, turns))

    def reply_tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    @property
    def end(self) -> int:
        """The token that ends a reply."""
        end = self.tokenizer.eos_token_id
        return int(end if end is not None else min(self.model.ends, default=self.model.pad))

    def anchor_rows(self, texts: Sequence[tuple[str, str]] = TRAINING) -> list[TokenRow]:
        """General questions with their answers, as tokens."""
        return [self.row(question, answer) for question, answer in texts]

    @cached_property
    def served(self) -> LanguageModel:
        """The same folder in the engine that serves it."""
        at = self.model.where
        dtype = str(at.dtype).removeprefix("torch.")
        return LanguageModel.load(self.model.folder, device=str(at.device), dtype=dtype, rank=self.adapter.rank)

    def served_replies(self, prompts: Sequence[Prompt], tensors: Mapping[str, Any] | None) -> list[Completion]:
        """Replies as a server would write them with this adapter; None: with the base alone."""
        if tensors is None:
            return self.served.generate(prompts)
        with TemporaryDirectory() as scratch:
            folder = write_peft(tensors, self.about, Path(scratch) / "adapter")
            self.served.add_adapter("measured", folder)
            try:
                return self.served.generate(prompts, adapter="measured")
            finally:
                self.served.drop_adapter("measured")

    @property
    def about(self) -> dict[str, Any]:
        """What an adapter of this model says about itself."""
        return {
            "base": self.base_hash, "template": self.template_hash, "r": self.adapter.rank,
            "alpha": self.adapter.alpha, "target_modules": list(self.adapter.targets),
        }  # fmt: skip

    @torch.no_grad()
    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Replies with the adapter on."""
        with self.adapter.merged():
            return self.model.generate(prompts)

    def generate_base(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Replies of the base."""
        with self.adapter.off():
            return self.model.generate(prompts)
