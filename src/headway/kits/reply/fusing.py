"""Adapters that are in use are compiled into weights of their own, in a thread beside the one that generates.

An adapter answers at once as an input of the model; after some tokens it is worth compiling (about seven seconds for
SmolLM2). Replies in progress go on with the compiled one.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.kits.reply.language import LanguageModel


logger = logging.getLogger("headway.loop")
_AFTER = 256  # tokens; and again after so many, if it was not possible


class AdapterFuser:
    """Counts the tokens of each adapter and compiles one at a time.

    fuser.wrote(model, adapter, 16)        # after each step
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wrote(self, model: LanguageModel, adapter: str, tokens: int) -> None:
        """An adapter of a model wrote so many tokens; start compiling it if it is worth it and nothing else is."""
        of = str(model.folder), adapter
        self._tokens[of] += tokens
        if self._tokens[of] < _AFTER or self.busy:
            return
        self._tokens[of] = 0
        if not model.can_fuse(adapter):
            return
        # Not a daemon: a process must not end while OpenVINO compiles.
        self._thread = threading.Thread(target=self._fuse, args=(model, adapter), name="headway-fuser")
        self._thread.start()

    def wait(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _fuse(self, model: LanguageModel, adapter: str) -> None:
        if sys.platform.startswith("linux"):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)  # of this thread only
        try:
            if model.fuse(adapter):
                how = f"with the adapter {adapter[:12]} in its weights" if adapter else "without adapters"
                self._say(f"{model.name} is compiled {how}.")
        except Exception:  # the adapter stays an input
            logger.exception("model=%s adapter=%s", model.name, adapter[:12])
