"""`LanguageModel`: one Hugging Face folder in memory; generates, streams and scores."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as messages

from headway.kits.reply.batch import Request, RunningBatch
from headway.kits.reply.cache import RowCache
from headway.kits.reply.device import Where, where
from headway.kits.reply.fast import lean
from headway.kits.reply.tokens import checked, fitted
from headway.nouns.errors import Damaged, HeadwayError, InvalidInput, Unavailable
from headway.nouns.protocols import Completion, Delta, Prompt, Scored

__all__ = ["LanguageModel"]

_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
_SCORED_BYTES = 256 << 20  # logits that `score` holds at once


class LanguageModel:
    """A local language model, as a `Generator`.

    model = LanguageModel.load(Path("smollm2"))
    model.generate([Prompt(text="The capital of France is", max_tokens=5, temperature=0)])[0].text     # " Paris…"

    The window must fit a prompt and its max_tokens. A conversation that is too long loses its oldest turns (never the
    system's or the last one; the completion counts them); a text that is too long is refused.
    """

    def __init__(self, network: Any, tokenizer: Any, *, name: str, at: Where, folder: Path | None = None) -> None:
        self.name = name
        self.where = at
        self.tokenizer = tokenizer
        self.folder = folder
        self.network = network.eval()
        config = network.config.get_text_config()
        self.window = int(getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", 0) or 2048)
        self.ends = _ends(network, tokenizer)
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(self.ends, default=0)
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.bytes_per_token = 2 * config.num_hidden_layers * heads * width * at.dtype.itemsize
        self._takes = frozenset(inspect.signature(network.forward).parameters)
        self._lean = lean(network)

    @classmethod
    def load(cls, folder: Path, *, name: str = "", device: str = "auto", dtype: str = "auto") -> LanguageModel:
        """Load a folder with config.json, tokenizer.json and *.safetensors. Runs no code from it."""
        at = where(device, dtype)
        _check_files(folder)
        options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        log_settings: Any = messages
        bars = log_settings.is_progress_bar_enabled()
        log_settings.disable_progress_bar()  # a library must not write to the terminal
        try:
            config = AutoConfig.from_pretrained(folder, **options)
            _supported(config, folder)
            network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=at.dtype, use_safetensors=True, **options)
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        except HeadwayError:
            raise
        except Exception as error:  # transformers may raise anything for a broken folder
            raise _unusable(folder, error) from error
        finally:
            if bars:
                log_settings.enable_progress_bar()
        return cls(network.to(at.device), tokenizer, name=name or folder.name, at=at, folder=folder)

    @property
    def model(self) -> str:
        return self.name

    @cached_property
    def weights_hash(self) -> str:
        """sha256 of the folder's weights, to identify the model of a reply. Reads them again (about a second)."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("*.safetensors")) if self.folder else ():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    @cached_property
    def template_hash(self) -> str:
        return hashlib.sha256(json.dumps(self.tokenizer.chat_template).encode()).hexdigest()

    # -- questions

    def request(self, prompt: Prompt) -> Request:
        """The prompt as tokens that fit, ready for a batch."""
        tokens, dropped = fitted(self.tokenizer, checked(prompt), self.window)
        size = self.network.get_input_embeddings().weight.shape[0]
        if not all(0 <= token < size for token in tokens):
            raise InvalidInput(
                f"A token is outside the model's vocabulary of {size}.",
                code="bad_prompt",
                hint="Use tokens of this model.",
            )
        return Request(prompt, tokens, dropped)

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """One reply per prompt, generated in one batch."""
        requests = [self.request(prompt) for prompt in prompts]
        batch, done = RunningBatch(self), {}
        for request in requests:
            batch.add(request)
        while batch.busy:
            done.update({id(owner): delta.completion for owner, delta in batch.step() if delta.completion})
        return [done[id(request)] for request in requests]

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        """A reply, delta by delta; closing the iterator stops the generation."""
        batch = RunningBatch(self)
        batch.add(self.request(prompt))
        while batch.busy:
            yield from (delta for _, delta in batch.step())

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        """The log-probability of every token of a reply at temperature 1; `ended` includes the end-of-text token."""
        return self.scores([(prompt, reply)], ended=ended)[0]

    def scores(self, pairs: Sequence[tuple[Prompt, str | Sequence[int]]], *, ended: bool = False) -> list[Scored]:
        """`score` for many replies, in batches."""
        rows = [self._tokenised(prompt, reply, ended) for prompt, reply in pairs]
        scores: dict[int, Scored] = {}
        order = sorted(range(len(rows)), key=lambda at: len(rows[at][0]) + len(rows[at][1]))
        vocabulary = self.network.get_input_embeddings().weight.shape[0]
        while order:
            taken, longest = [order.pop()], 0
            while order:
                longest = max(len(rows[at][1]) for at in (*taken, order[-1])) + 1
                if (len(taken) + 1) * longest * vocabulary * 4 > _SCORED_BYTES:
                    break
                taken.append(order.pop())
            scores.update(zip(taken, self._scored([rows[at] for at in taken]), strict=True))
        return [scores[at] for at in range(len(rows))]

    def _tokenised(self, prompt: Prompt, reply: str | Sequence[int], ended: bool) -> tuple[list[int], list[int]]:
        tokens = self.tokenizer(reply, add_special_tokens=False)["input_ids"] if isinstance(reply, str) else list(reply)
        if ended:
            tokens = [
                *tokens,
                self.tokenizer.eos_token_id if self.tokenizer.eos_token_id is not None else min(self.ends),
            ]
        if not tokens:
            raise InvalidInput("The reply has no tokens.", code="bad_prompt", hint="Pass a reply that is not empty.")
        before, _ = fitted(self.tokenizer, checked(prompt), self.window + prompt.max_tokens - len(tokens))
        return before, tokens

    @torch.inference_mode()
    def _scored(self, rows: list[tuple[list[int], list[int]]]) -> list[Scored]:
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
        logits = self._plain(ids, (places - pads[:, None]).clamp(min=0), mask if bool(pads.any()) else None, None, keep)
        scores = []
        for row, (_, reply) in enumerate(rows):
            part = logits[row, -len(reply) - 1 : -1].float()  # [token, vocabulary]: the position before each token
            chosen = part.gather(1, torch.tensor(reply, device=device)[:, None])[:, 0]
            scores.append(Scored(tuple(reply), tuple((chosen - part.logsumexp(-1)).tolist())))
        return scores

    # -- the network

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: RowCache
    ) -> torch.Tensor:
        """Logits after the last position of every row, [row, vocabulary]."""
        if self._lean is not None:
            return self._lean(ids, positions, mask, cache)
        return self._plain(ids, positions, mask, cache, 1)[:, -1]

    def _plain(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor | None,
        cache: RowCache | None,
        keep: int,
    ) -> torch.Tensor:
        """transformers' own forward pass; logits of at least the last `keep` positions."""
        more: dict[str, Any] = {}
        if "position_ids" in self._takes:
            more["position_ids"] = positions
        if "logits_to_keep" in self._takes:
            more["logits_to_keep"] = keep
        if mask is not None:
            more["attention_mask"] = mask.long()
        output = self.network(input_ids=ids, past_key_values=cache, use_cache=cache is not None, **more)
        logits: torch.Tensor = output.logits
        return logits


def _ends(network: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a reply, from all places where a folder can name them."""
    ends: set[int] = set()
    for tokens in (
        getattr(network.generation_config, "eos_token_id", None),
        network.config.eos_token_id,
        tokenizer.eos_token_id,
    ):
        ends.update(tokens if isinstance(tokens, (list, tuple)) else () if tokens is None else (tokens,))
    return frozenset(ends)


def _check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise Unavailable(
            f"There is no model folder {str(folder)!r}.",
            code="model_missing",
            hint="Fetch the embedded model with `headway models add smollm2`, or pass a folder.",
        )
    missing = [pattern for pattern in ("config.json", "*.safetensors") if not any(folder.glob(pattern))]
    if missing:
        raise Damaged(
            f"{str(folder)!r} has no {' and no '.join(missing)}, expected a Hugging Face model in safetensors.",
            code="model_damaged",
            hint="A folder needs config.json, tokenizer.json and *.safetensors; pickled weights are never loaded.",
        )


def _supported(config: Any, folder: Path) -> None:
    """Raise unless the cache of the batch supports the model: it needs attention over the whole past."""
    kinds = set(getattr(config.get_text_config(), "layer_types", None) or ())
    if config.is_encoder_decoder or not kinds <= _ATTENTION:
        raise InvalidInput(
            f"{str(folder)!r} contains a {config.model_type!r} model, which is not a plain decoder with attention.",
            code="model_unsupported",
            hint="Llama, Qwen, Mistral, Gemma, GPT-2 and similar models work.",
        )


def _unusable(folder: Path, error: Exception) -> Damaged:
    reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
    return Damaged(
        f"The model in {str(folder)!r} cannot be loaded: {reason}",
        code="model_damaged",
        hint="Fetch it again (`headway models add`), or load the folder with transformers to see its error.",
    )
