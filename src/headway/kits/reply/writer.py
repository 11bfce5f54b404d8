"""Replies of any policy of a task, written in this process: for comparisons. A server asks the worker instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headway.kits import models
from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import Conflict
from headway.nouns.protocols import Completion, Prompt, Turn

if TYPE_CHECKING:
    from headway.kits.reply.learn.tuned import TunedModel
    from headway.project import Project
    from headway.settings import TaskSettings

__all__ = ["ReplyWriter"]

_MOST_TOKENS = 256


class ReplyWriter:
    """Writes replies with the base of a task, under any of its adapters.

    writer.replies("language@4f2a", ["What is rust?"], seed=7)
    """

    def __init__(self, project: Project, settings: TaskSettings) -> None:
        self._project, self._settings = project, settings
        self._loaded = ""
        self._shape: tuple[int, float] = (16, 32.0)

    @cached_property
    def _tuned(self) -> TunedModel:
        from headway.kits.reply.learn.tuned import TunedModel

        folder = models.folder(str(getattr(self._settings, "base", "") or "smollm2"), self._project.settings.cache)
        return TunedModel.load(folder, rank=self._shape[0], alpha=self._shape[1])

    def replies(self, ref: str, texts: Sequence[str], *, seed: int, max_tokens: int = 0) -> list[Completion]:
        """One reply per text, sampled as the task samples."""
        system = str(getattr(self._settings, "system", "") or "")
        before = (Turn("system", system),) if system else ()
        most = max_tokens or int(getattr(self._settings, "max_tokens", 0) or _MOST_TOKENS)
        most = min(most, self._tuned.model.window // 2)
        temperature = getattr(self._settings, "temperature", None)
        prompts = [
            Prompt(
                turns=(*before, Turn("user", text)), max_tokens=most, seed=seed + place,
                temperature=0.7 if temperature is None else float(temperature),
            )
            for place, text in enumerate(texts)
        ]  # fmt: skip
        if PolicyRef.parse(ref).built_in:
            return self._tuned.generate_base(prompts)
        self._use(ref)
        return self._tuned.generate(prompts)

    def _use(self, ref: str) -> None:
        digest = self._project.registry.find(ref)
        if digest == self._loaded:
            return
        header, tensors = self._project.registry.load(digest, task=self._settings.name)
        self._fit(header.extra)
        if header.extra.get("base") != self._tuned.base_hash:
            raise Conflict(
                f"{ref} was trained on another base than {self._tuned.model.name!r} is now.",
                code="adapter_of_another_base",
                hint="Set `base` to the model that it was trained on, or learn again.",
            )
        self._tuned.adapter.load(tensors)
        self._loaded = digest

    def _fit(self, extra: Mapping[str, Any]) -> None:
        """Another rank needs another adapter on the network."""
        shape = (int(extra["r"]), float(extra["alpha"]))
        if shape != self._shape:
            self._shape, self._loaded = shape, ""
            self.__dict__.pop("_tuned", None)
