"""Replies of any policy of a task, written in this process: for comparisons. A server asks the worker instead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from headway.kits import models
from headway.kits.models.language import Completion, Prompt, Turn
from headway.kits.reply.adapters import write_peft
from headway.kits.reply.wire import base_of
from headway.nouns.checkpoint import PolicyRef

if TYPE_CHECKING:
    from headway.kits.reply.language import LanguageModel
    from headway.project import Project
    from headway.settings import TaskSettings


_MOST_TOKENS = 256


class ReplyWriter:
    """Writes replies with the base of a task, under any of its adapters, in the engine that serves it.

    writer.replies("language@4f2a", ["What is rust?"], seed=7)
    """

    def __init__(self, project: Project, settings: TaskSettings) -> None:
        self._project, self._settings = project, settings

    @cached_property
    def _model(self) -> LanguageModel:
        from headway.kits.reply.language import LanguageModel

        base = base_of(str(getattr(self._settings, "base", "") or "smollm2"), self._project.folder)
        return LanguageModel.load(models.folder(base, self._project.settings.cache))

    def replies(self, ref: str, texts: Sequence[str], *, seed: int, max_tokens: int = 0) -> list[Completion]:
        """One reply per text, sampled as the task samples."""
        system = str(getattr(self._settings, "system", "") or "")
        before = (Turn("system", system),) if system else ()
        most = max_tokens or int(getattr(self._settings, "max_tokens", 0) or _MOST_TOKENS)
        temperature, top_p = (getattr(self._settings, name, None) for name in ("temperature", "top_p"))
        prompts = [
            Prompt(
                turns=(*before, Turn("user", text)), max_tokens=min(most, self._model.window // 2), seed=seed + place,
                temperature=0.7 if temperature is None else float(temperature),
                top_p=1.0 if top_p is None else float(top_p),
            )
            for place, text in enumerate(texts)
        ]  # fmt: skip
        return self._model.generate(prompts, adapter=self._adapter(ref))

    def _adapter(self, ref: str) -> str:
        """The name of the policy's adapter in the model, which takes it now if it has not before; "": the base."""
        if PolicyRef.parse(ref).built_in:
            return ""
        digest = self._project.registry.find(ref)
        if digest not in self._model.adapters:
            header, tensors = self._project.registry.load(digest, task=self._settings.name)
            folder = self._project.home / "work" / "adapters" / digest  # may be deleted at any time
            self._model.add_adapter(digest, write_peft(tensors, header.extra, folder))
        return digest
