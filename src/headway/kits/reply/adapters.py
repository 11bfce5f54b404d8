"""An adapter as a folder that PEFT, vLLM and llama.cpp's converter read, and back; and compiled into the weights.

    write_peft(tensors, extra, folder)        # adapter_config.json, adapter_model.safetensors, headway.json
    tensors, extra = read_peft(folder)        # numpy arrays with PEFT's names, and what the config says
    AdapterFuser(say).wrote(model, adapter, 16)      # after each step: an adapter in use is compiled in the background

A bundle of the family `language` has the same tensors under the same names, so both directions copy bytes. A folder is
untrusted input: nothing in it is executed, and pickled weights are not read.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.files import open_regular, whole_folder
from headway.nouns import errors

AdapterTensors = Mapping[str, NDArray[np.generic]]
CONFIG, WEIGHTS, ABOUT = "adapter_config.json", "adapter_model.safetensors", "headway.json"
_NAME = re.compile(r"base_model\.model\.[A-Za-z0-9_.]{1,200}\.lora_[AB]\.weight\Z")
_MOST_CONFIG, _MOST_WEIGHTS = 1 << 20, 8 << 30


def write_peft(tensors: AdapterTensors, extra: Mapping[str, Any], folder: Path) -> Path:
    """Write an adapter for PEFT; the folder exists completely or not at all. One that exists is left as it is."""
    from safetensors.numpy import save

    checked_adapter(tensors, extra)
    if folder.exists():
        read_peft(folder)
        return folder
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(extra.get("base_name", "")),
        "r": int(extra["r"]),
        "lora_alpha": float(extra["alpha"]),
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "target_modules": sorted(extra["target_modules"]),
    }
    about = {name: extra[name] for name in ("base", "template", "learner") if name in extra}
    arrays = {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in tensors.items()}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(folder) as scratch:
            (scratch / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
            (scratch / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            (scratch / WEIGHTS).write_bytes(save(arrays, metadata={"format": "pt"}))
            scratch.chmod(0o755)
    except OSError as error:
        raise errors.Unavailable(
            f"The adapter could not be written to {str(folder)!r}: {error.strerror}.",
            code="adapter_not_written",
            hint="Free some space, or name another folder.",
        ) from error
    return folder


def read_peft(folder: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, Any]]:
    """The tensors of a PEFT folder, and its settings as a bundle's `extra`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        config = json.loads(_bytes(folder / CONFIG, _MOST_CONFIG))
        tensors: dict[str, NDArray[np.generic]] = dict(load(_bytes(folder / WEIGHTS, _MOST_WEIGHTS)))
        extra = {
            "r": int(config["r"]),
            "alpha": float(config["lora_alpha"]),
            "target_modules": sorted(config["target_modules"]),
            "base_name": str(config.get("base_model_name_or_path") or ""),
            **_about(folder),
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise _damaged(folder, error) from error
    if config.get("peft_type") != "LORA" or config.get("use_dora") or config.get("rank_pattern"):
        raise errors.InvalidInput(
            f"{str(folder)!r} is not a plain LoRA adapter.",
            code="adapter_unsupported",
            hint="Adapters of one rank, without DoRA, are supported.",
        )
    checked_adapter(tensors, extra)
    return tensors, extra


def _about(folder: Path) -> dict[str, Any]:
    """What Headway wrote beside an adapter; a folder of another program has none."""
    if not (folder / ABOUT).exists():
        return {}
    return {str(name): str(value) for name, value in dict(json.loads(_bytes(folder / ABOUT, _MOST_CONFIG))).items()}


def checked_adapter(tensors: AdapterTensors, extra: Mapping[str, Any]) -> None:
    """Raise unless the tensors are whole pairs of LoRA matrices of the stated rank, and finite."""
    rank, shapes = int(extra.get("r", 0)), {name: np.shape(value) for name, value in tensors.items()}
    wrong = "" if tensors else "it has no tensors"
    for name, value in tensors.items():
        partner = name.replace("lora_A", "lora_B") if "lora_A" in name else name.replace("lora_B", "lora_A")
        if not _NAME.match(name):
            wrong = f"a tensor is called {name!r:.80}"
        elif partner not in tensors:
            wrong = f"{name!r} has no partner"
        elif len(shapes[name]) != 2 or shapes[name][0 if "lora_A" in name else 1] != rank:
            wrong = f"{name!r} has the shape {shapes[name]}, expected rank {rank}"
        elif not bool(np.isfinite(value).all()):
            wrong = f"{name!r} has numbers that are not finite"
        if wrong:
            break
    if wrong:
        raise errors.Damaged(
            f"The adapter is damaged: {wrong}.", code="adapter_damaged", hint="Learn it again, or roll back."
        )


def _bytes(path: Path, most: int) -> bytes:
    with os.fdopen(open_regular(path), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path.name} has more than {most:,} bytes")
    return content


def _damaged(folder: Path, error: Exception) -> errors.Damaged:
    reason = (
        getattr(error, "strerror", None) or str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    )
    return errors.Damaged(
        f"The adapter in {str(folder)!r} cannot be read: {reason}.",
        code="adapter_damaged",
        hint=f"A folder needs {CONFIG} and {WEIGHTS}; `headway models export REF FOLDER` writes them.",
    )


logger = logging.getLogger("headway.loop")
_AFTER = 256  # tokens; if it was not possible, it is tried again after as many


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

    def wrote(self, model: Any, adapter: str, tokens: int) -> None:
        """Count the tokens that an adapter wrote; compile it once it has written enough, one at a time."""
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

    def _fuse(self, model: Any, adapter: str) -> None:
        if sys.platform.startswith("linux"):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)  # of this thread only
        try:
            if model.fuse(adapter):
                how = f"with the adapter {adapter[:12]} in its weights" if adapter else "without adapters"
                self._say(f"{model.name} is compiled {how}.")
        except Exception:  # the adapter stays an input
            logger.exception("model=%s adapter=%s", model.name, adapter[:12])
