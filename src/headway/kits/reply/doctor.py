"""The lines of `headway doctor` about reply tasks: whether each has the model that it names, and who holds it."""

from __future__ import annotations

from collections.abc import Iterator

from headway.kits import models
from headway.kits.reply.client import LanguageWorker
from headway.kits.reply.settings import reply_settings
from headway.kits.reply.wire import base_of
from headway.nouns import Finding, errors
from headway.settings import Settings


def check(settings: Settings) -> Iterator[Finding]:
    """One finding per reply task, and one about the worker. Loads no model."""
    bases = {task.name: reply_settings(task).base for task in settings.tasks.values() if task.kind == "reply"}
    for task, base in bases.items():
        name = f"base of {task}"
        if base in settings.upstreams:
            yield Finding(name=name, ok=True, found=f"the upstream {base}; its weights cannot be trained")
            continue
        try:
            folder = models.folder(base_of(base, settings.directory), settings.cache)
        except errors.HeadwayError as error:
            yield Finding(name=name, ok=False, found=error.message, cure=error.hint)
        else:
            yield Finding(name=name, ok=True, found=f"{base} in {folder}")
    if any(base not in settings.upstreams for base in bases.values()):
        yield _worker(settings)


def _worker(settings: Settings) -> Finding:
    """Information only: a project that is not in use needs none."""
    try:
        loaded = ", ".join(model.name for model in LanguageWorker(settings.directory, "").health().models)
    except errors.Unavailable:
        cure = "`headway up` starts one by itself, `headway worker` alone."
        return Finding(name="language worker", ok=None, found="none listens; local replies need one", cure=cure)
    return Finding(name="language worker", ok=None, found=f"listens; loaded: {loaded or 'nothing yet'}")
