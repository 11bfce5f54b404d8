"""Many requests at once: they join a running batch between two tokens, and leave it when they are done.

    batch = Batch(network)
    batch.add(request)
    while batch.busy:
        for request, delta in batch.step(): ...

A step reads one piece of the prompts that wait and makes one token for every running row, so that a long prompt holds
nobody up for long. Equal prompts are read once. Rows do not see one another: what a row says depends on its prompt, its
settings and its seed (and, in the last bits of floating point, on how many rows are multiplied at once).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from headway.kits.reply.cache import RowCache
from headway.kits.reply.device import Where
from headway.kits.reply.sampling import Draw, Picked, pick
from headway.kits.reply.wording import Spelling
from headway.nouns.protocols import Completion, Delta, Prompt

__all__ = ["Batch", "Network", "Request"]

_MOST_ROWS = {"cpu": 32, "mps": 32, "cuda": 128}
_PIECE = {"cpu": 512, "mps": 1024, "cuda": 8192}  # tokens of prompts that are read in one step


class Network(Protocol):
    """What a batch needs of a model."""

    where: Where
    name: str
    tokenizer: Any
    ends: frozenset[int]
    pad: int
    bytes_per_token: int

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: RowCache
    ) -> torch.Tensor: ...  # logits after the last place of every row, [row, vocabulary]


class Request:
    """One reply that is being made."""

    def __init__(self, prompt: Prompt, tokens: Sequence[int], dropped: int = 0) -> None:
        self.prompt = prompt
        self.tokens = tuple(tokens)
        self.dropped = dropped
        self.made: list[Picked] = []
        self.cancelled = False
        self._spelling: Spelling | None = None
        self._text: list[str] = []

    @property
    def length(self) -> int:
        """Tokens in the cache, once the last one made has been read too."""
        return len(self.tokens) + len(self.made)

    @property
    def most(self) -> int:
        return len(self.tokens) + self.prompt.max_tokens

    def draw(self) -> Draw:
        return Draw(self.prompt.temperature, self.prompt.top_p, self.prompt.seed, len(self.made))

    def take(self, picked: Picked, network: Network) -> Delta:
        """One more token; the delta carries the completion if it was the last."""
        if self._spelling is None:
            self._spelling = Spelling(network.tokenizer, self.tokens, self.prompt.stop)
        self.made.append(picked)
        text, finish = "", ""
        if picked.token in network.ends or picked.token in self.prompt.stop_tokens:
            text, finish = self._spelling.rest(), "stop"
        else:
            text = self._spelling.add(picked.token)
            if not self._spelling.stopped and len(self.made) >= self.prompt.max_tokens:
                text, finish = text + self._spelling.rest(), "length"
        if self._spelling.stopped:
            finish = "stop"
        self._text.append(text)
        return Delta(text, self._completion(finish, network.name) if finish else None)

    def _completion(self, finish: Any, model: str) -> Completion:
        return Completion(
            text="".join(self._text),
            tokens=tuple(each.token for each in self.made),
            logprob_model=tuple(each.logprob_model for each in self.made),
            logprob_acting=tuple(each.logprob_acting for each in self.made),
            finish=finish,
            prompt_tokens=self.tokens,
            dropped_turns=self.dropped,
            temperature=self.prompt.temperature,
            top_p=self.prompt.top_p,
            seed=self.prompt.seed,
            model=model,
        )


class _Reading:
    """Prompts that are being read, piece by piece, into a cache of their own."""

    def __init__(self, requests: list[Request], network: Network) -> None:
        self.requests = requests
        self.different = list(dict.fromkeys(each.tokens for each in requests))
        self.cache = RowCache()
        device = network.where.device
        longest = max(map(len, self.different))
        padded = [[network.pad] * (longest - len(each)) + list(each) for each in self.different]
        self.ids = torch.tensor(padded, device=device)  # [prompt, token], padded on the left
        self.pads = torch.tensor([longest - len(each) for each in self.different], device=device)
        self.ragged = len({len(each) for each in self.different}) > 1
        self.at = 0

    def read(self, network: Network, piece: int) -> torch.Tensor | None:
        """One piece; the logits after the prompts [request, vocabulary] once they are read."""
        end = min(self.ids.shape[1], self.at + max(1, piece // len(self.different)))
        places = torch.arange(end, device=self.ids.device)[None]
        positions = (places[:, self.at :] - self.pads[:, None]).clamp(min=0)
        mask = places >= self.pads[:, None] if self.ragged else None
        logits = network.forward(self.ids[:, self.at : end], positions, mask, self.cache)
        self.at = end
        if end < self.ids.shape[1]:
            return None
        rows = torch.tensor([self.different.index(each.tokens) for each in self.requests], device=self.ids.device)
        if len(self.requests) != len(self.different) or rows.tolist() != list(range(len(rows))):
            self.cache.keep(rows)
            logits = logits[rows]
        return logits


class Batch:
    """The running batch of one model. Not for several threads: one steps, others hand their requests to that one."""

    def __init__(self, network: Network, *, most_rows: int | None = None, piece: int | None = None) -> None:
        kind = network.where.device.type
        self._network = network
        self._most_rows = most_rows or _MOST_ROWS[kind]
        self._piece = piece or _PIECE[kind]
        self._waiting: deque[Request] = deque()
        self._reading: _Reading | None = None
        self._rows: list[Request] = []
        self._cache: RowCache | None = None

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._rows or self._reading)

    @property
    def running(self) -> int:
        return len(self._rows) + (len(self._reading.requests) if self._reading else 0)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, request: Request) -> None:
        self._waiting.append(request)

    @torch.inference_mode()
    def step(self) -> list[tuple[Request, Delta]]:
        """What has been said since the last step; a delta without text is not told unless it is the last."""
        said: list[tuple[Request, Delta]] = []
        self._leave()
        self._admit()
        if self._reading is not None:
            logits = self._reading.read(self._network, self._piece)
            if logits is not None:
                reading, self._reading = self._reading, None
                said += self._taken(reading.requests, logits)
                self._join(reading)
                self._leave()
        if self._rows:
            said += self._taken(self._rows, self._next())
            self._leave()
        return said

    # -- who is in

    def _admit(self) -> None:
        while self._waiting and self._waiting[0].cancelled:
            self._waiting.popleft()
        if self._reading is not None and all(each.cancelled for each in self._reading.requests):
            self._reading = None
        if self._reading is not None or not self._waiting:
            return
        taken, passed = [self._waiting.popleft()], []
        if not self._fits(taken):
            if self._rows:
                self._waiting.appendleft(taken[0])
                return
        else:
            while self._waiting:
                each = self._waiting.popleft()
                if each.cancelled:
                    continue
                if self._worth(taken, each) and self._fits([*taken, each]):
                    taken.append(each)
                else:
                    passed.append(each)
            self._waiting.extend(passed)
        self._reading = _Reading(taken, self._network)

    def _fits(self, more: list[Request]) -> bool:
        """Whether all would find room; every row takes as much as the longest."""
        rows = [*self._rows, *more]
        if len(rows) > self._most_rows:
            return len(rows) == 1
        room = len(rows) * max(each.most for each in rows) * self._network.bytes_per_token
        return room <= self._network.where.cache_bytes

    def _worth(self, taken: list[Request], each: Request) -> bool:
        """Whether reading it together with the others wastes little on padding."""
        lengths = [len(one.tokens) for one in (*taken, each)]
        return len(lengths) * max(lengths) <= 1.5 * sum(lengths) + 64

    def _join(self, reading: _Reading) -> None:
        if self._cache is None:
            self._cache = reading.cache
        else:
            self._cache.join(reading.cache)
        self._rows = [*self._rows, *reading.requests]

    def _leave(self) -> None:
        """Rows that are done or cancelled make room; padding that nobody needs any more goes with them."""
        stay = [at for at, each in enumerate(self._rows) if not each.cancelled]
        if len(stay) == len(self._rows):
            return
        self._rows = [self._rows[at] for at in stay]
        if not self._rows or self._cache is None:
            self._cache = None
            return
        longest = max(each.length for each in self._rows) - 1  # the last token made has not been read yet
        rows = torch.tensor(stay, device=self._network.where.device)
        self._cache.keep(rows, self._cache.length - longest)

    # -- one token

    def _next(self) -> torch.Tensor:
        assert self._cache is not None
        device = self._network.where.device
        ids = torch.tensor([[each.made[-1].token] for each in self._rows], device=device)
        lengths = [each.length for each in self._rows]
        longest = max(lengths)
        mask = None
        if min(lengths) < longest:
            pads = torch.tensor([longest - each for each in lengths], device=device)
            mask = torch.arange(longest, device=device)[None] >= pads[:, None]
        positions = torch.tensor([[each - 1] for each in lengths], device=device)
        return self._network.forward(ids, positions, mask, self._cache)

    def _taken(self, requests: Sequence[Request], logits: torch.Tensor) -> list[tuple[Request, Delta]]:
        said: list[tuple[Request, Delta]] = []
        picks = pick(logits, [each.draw() for each in requests])
        for request, picked in zip(requests, picks, strict=True):
            if request.cancelled:
                continue
            delta = request.take(picked, self._network)
            if delta.completion is not None:
                request.cancelled = True  # it leaves the batch
            if delta.text or delta.completion is not None:
                said.append((request, delta))
        return said
