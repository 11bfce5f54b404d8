"""Many requests at once: they join a running batch between two tokens, and leave it when they are finished.

    batch = RunningBatch(network)
    batch.add(request)
    while batch.busy:
        for request, delta in batch.step(): ...

A step reads one piece of the waiting prompts and generates one token for every running row, so that a long prompt never
blocks the others for long. Equal prompts are read once. Rows are independent: the text of a row depends on its prompt,
its settings and its seed (and, in the last bits of floating point, on the number of rows in a product).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from headway.kits.models import Completion, Delta, Prompt
from headway.kits.reply.device import Where
from headway.kits.reply.sampling import PickedToken, TokenDraw, pick
from headway.kits.reply.tokens import Detokenizer

_MOST_ROWS = {"cpu": 32, "mps": 32, "cuda": 128}
_PIECE = {"cpu": 512, "mps": 1024, "cuda": 8192}  # prompt tokens per step


class BatchCache(Protocol):
    """Keys and values of the rows of a batch."""

    @property
    def length(self) -> int: ...

    def keep(self, rows: torch.Tensor, start: int = 0) -> None: ...

    def join(self, other: Any) -> None: ...


class LanguageNetwork(Protocol):
    """The interface that a batch needs from a model."""

    where: Where
    name: str
    tokenizer: Any
    ends: frozenset[int]
    pad: int
    bytes_per_token: int

    def new_cache(self, adapter: str) -> Any: ...

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Any
    ) -> torch.Tensor: ...  # logits after the last position of every row, [row, vocabulary]


class Request:
    """One reply in progress."""

    def __init__(self, prompt: Prompt, tokens: Sequence[int], dropped: int = 0) -> None:
        self.prompt = prompt
        self.tokens = tuple(tokens)
        self.dropped = dropped
        self.made: list[PickedToken] = []
        self.cancelled = False
        self._spelling: Detokenizer | None = None
        self._text: list[str] = []

    @property
    def length(self) -> int:
        """Tokens in the cache, after the last generated one has been read."""
        return len(self.tokens) + len(self.made)

    @property
    def most(self) -> int:
        return len(self.tokens) + self.prompt.max_tokens

    def draw(self) -> TokenDraw:
        return TokenDraw(self.prompt.temperature, self.prompt.top_p, self.prompt.seed, len(self.made))

    def take(self, picked: PickedToken, network: LanguageNetwork) -> Delta:
        """Add one token; the delta contains the completion if it was the last."""
        if self._spelling is None:
            self._spelling = Detokenizer(network.tokenizer, self.tokens, self.prompt.stop)
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
            tokens=tuple(picked.token for picked in self.made),
            logprob_model=tuple(picked.logprob_model for picked in self.made),
            logprob_acting=tuple(picked.logprob_acting for picked in self.made),
            finish=finish,
            prompt_tokens=self.tokens,
            dropped_turns=self.dropped,
            temperature=self.prompt.temperature,
            top_p=self.prompt.top_p,
            seed=self.prompt.seed,
            model=model,
        )


class _Reading:
    """Prompts that are being read, piece by piece, into a separate cache."""

    def __init__(self, requests: list[Request], network: LanguageNetwork, adapter: str) -> None:
        self.requests = requests
        self.distinct = list(dict.fromkeys(request.tokens for request in requests))
        self.cache: BatchCache = network.new_cache(adapter)
        device = network.where.device
        longest = max(map(len, self.distinct))
        padded = [[network.pad] * (longest - len(tokens)) + list(tokens) for tokens in self.distinct]
        self.ids = torch.tensor(padded, device=device)  # [prompt, token], padded on the left
        self.pads = torch.tensor([longest - len(tokens) for tokens in self.distinct], device=device)
        self.ragged = len({len(tokens) for tokens in self.distinct}) > 1
        self.at = 0

    def read(self, network: LanguageNetwork, piece: int) -> torch.Tensor | None:
        """Read one piece; returns the logits after the prompts [request, vocabulary] once they are complete."""
        end = min(self.ids.shape[1], self.at + max(1, piece // len(self.distinct)))
        places = torch.arange(end, device=self.ids.device)[None]
        positions = (places[:, self.at :] - self.pads[:, None]).clamp(min=0)
        mask = places >= self.pads[:, None] if self.ragged else None
        logits = network.forward(self.ids[:, self.at : end], positions, mask, self.cache)
        self.at = end
        if end < self.ids.shape[1]:
            return None
        rows = torch.tensor([self.distinct.index(request.tokens) for request in self.requests], device=self.ids.device)
        if len(self.requests) != len(self.distinct) or rows.tolist() != list(range(len(rows))):
            self.cache.keep(rows)
            logits = logits[rows]
        return logits


class RunningBatch:
    """The running batch of one model and one adapter. Not thread-safe: one thread owns it."""

    def __init__(
        self,
        network: LanguageNetwork,
        *,
        adapter: str = "",
        most_rows: int | None = None,
        piece: int | None = None,
    ) -> None:
        kind = network.where.device.type
        self._network = network
        self._adapter = adapter
        self._most_rows = most_rows or _MOST_ROWS[kind]
        self._piece = piece or _PIECE[kind]
        self._waiting: deque[Request] = deque()
        self._reading: _Reading | None = None
        self._rows: list[Request] = []
        self._cache: BatchCache | None = None

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
        """Run one step; returns the new deltas. A delta without text is returned only if it is the last."""
        deltas: list[tuple[Request, Delta]] = []
        self._remove_finished()
        self._admit()
        if self._reading is not None:
            logits = self._reading.read(self._network, self._piece)
            if logits is not None:
                reading, self._reading = self._reading, None
                deltas += self._take(reading.requests, logits)
                self._join(reading)
                self._remove_finished()
        if self._rows:
            deltas += self._take(self._rows, self._next())
            self._remove_finished()
        return deltas

    # -- membership

    def _admit(self) -> None:
        while self._waiting and self._waiting[0].cancelled:
            self._waiting.popleft()
        if self._reading is not None and all(request.cancelled for request in self._reading.requests):
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
                request = self._waiting.popleft()
                if request.cancelled:
                    continue
                if self._similar_length(taken, request) and self._fits([*taken, request]):
                    taken.append(request)
                else:
                    passed.append(request)
            self._waiting.extend(passed)
        self._reading = _Reading(taken, self._network, self._adapter)

    def _fits(self, more: list[Request]) -> bool:
        """Whether there is room for all; every row takes as much as the longest."""
        rows = [*self._rows, *more]
        if len(rows) > self._most_rows:
            return len(rows) == 1
        room = len(rows) * max(row.most for row in rows) * self._network.bytes_per_token
        return room <= self._network.where.cache_bytes

    def _similar_length(self, taken: list[Request], request: Request) -> bool:
        """Whether reading it together with the others wastes little padding."""
        lengths = [len(one.tokens) for one in (*taken, request)]
        return len(lengths) * max(lengths) <= 1.5 * sum(lengths) + 64

    def _join(self, reading: _Reading) -> None:
        if self._cache is None:
            self._cache = reading.cache
        else:
            self._cache.join(reading.cache)
        self._rows = [*self._rows, *reading.requests]

    def _remove_finished(self) -> None:
        """Remove finished and cancelled rows, and the padding that only they needed."""
        stay = [at for at, request in enumerate(self._rows) if not request.cancelled]
        if len(stay) == len(self._rows):
            return
        self._rows = [self._rows[at] for at in stay]
        if not self._rows or self._cache is None:
            self._cache = None
            return
        longest = max(row.length for row in self._rows) - 1  # the last generated token has not been read yet
        rows = torch.tensor(stay, device=self._network.where.device)
        self._cache.keep(rows, self._cache.length - longest)

    # -- one token

    def _next(self) -> torch.Tensor:
        assert self._cache is not None
        device = self._network.where.device
        ids = torch.tensor([[row.made[-1].token] for row in self._rows], device=device)
        lengths = [row.length for row in self._rows]
        longest = max(lengths)
        mask = None
        if min(lengths) < longest:
            pads = torch.tensor([longest - length for length in lengths], device=device)
            mask = torch.arange(longest, device=device)[None] >= pads[:, None]
        positions = torch.tensor([[length - 1] for length in lengths], device=device)
        return self._network.forward(ids, positions, mask, self._cache)

    def _take(self, requests: Sequence[Request], logits: torch.Tensor) -> list[tuple[Request, Delta]]:
        deltas: list[tuple[Request, Delta]] = []
        picks = pick(logits, [request.draw() for request in requests])
        for request, picked in zip(requests, picks, strict=True):
            if request.cancelled:
                continue
            delta = request.take(picked, self._network)
            if delta.completion is not None:
                request.cancelled = True  # it leaves the batch
            if delta.text or delta.completion is not None:
                deltas.append((request, delta))
        return deltas
