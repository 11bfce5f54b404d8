"""What is in the folder of a language model: checked, read, and given to the engine that covers it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging as messages

from headway.kits.reply.device import Where
from headway.kits.reply.room import no_memory, out_of_memory
from headway.nouns import errors

logger = logging.getLogger("headway.loop")
_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
SAFELY: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


@contextmanager
def quiet(folder: Path) -> Iterator[None]:
    """A library must not write to the terminal; anything that transformers raises is a damaged folder."""
    log_settings: Any = messages
    bars = log_settings.is_progress_bar_enabled()
    log_settings.disable_progress_bar()
    try:
        yield
    except errors.HeadwayError:
        raise
    except Exception as error:  # transformers may raise anything for a broken folder
        if out_of_memory(error):
            hint = "Close other programs, or use a smaller model."
            raise no_memory(f"Loading the model in {str(folder)!r}", hint) from error
        raise _unusable(folder, error) from error
    finally:
        if bars:
            log_settings.enable_progress_bar()


def network_of(folder: Path, at: Where, device_map: str = "") -> Any:
    spread: dict[str, Any] = {"device_map": device_map} if device_map else {}
    if spread and find_spec("accelerate") is None:
        raise errors.Unavailable(
            "A device map needs the package 'accelerate'.", code="no_accelerate", hint="pip install accelerate"
        )
    network: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=at.dtype, use_safetensors=True, **spread, **SAFELY
    )
    return network if spread else network.to(at.device)


def fast_engine(folder: Path, engine: str, rank: int, threads: int, weights: str) -> Any:
    """The engine openvino; None if it is not wanted, not installed, or does not cover the model or this processor."""
    if engine == "transformers" or (engine == "auto" and find_spec("openvino") is None):
        return None
    try:
        from headway.kits.reply.engines.graph import shape_of
        from headway.kits.reply.engines.openvino import OpenVinoEngine

        shape = shape_of(folder)
        return shape and OpenVinoEngine(folder, shape, threads=threads, rank=rank, weights=weights)
    except (
        RuntimeError,
        errors.MissingExtra,
    ) as error:  # what this version of OpenVINO lacks, or not for this processor
        if engine == "openvino" or weights != "float32" or out_of_memory(error):
            raise
        logger.warning("OpenVINO cannot run %s; transformers does: %s", folder, str(error).strip().splitlines()[0])
        return None


def check_engine(folder: Path, engine: str, weights: str) -> None:
    if engine == "openvino" or weights != "float32":
        wanted = f"The format {weights!r}" if weights != "float32" else "The engine 'openvino'"
        raise errors.InvalidInput(
            f"{wanted} does not cover the model in {str(folder)!r} here.",
            code="bad_engine",
            hint="It needs a CPU and a Llama- or Qwen-like model; use transformers in float32 for others.",
        )


def ends_of(folder: Path, config: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a reply, from all places where a folder can name them."""
    ends: set[int] = set()
    generation: Any = None
    if (folder / "generation_config.json").exists():
        with suppress(OSError, ValueError):
            generation = GenerationConfig.from_pretrained(folder, local_files_only=True)
    for tokens in (getattr(generation, "eos_token_id", None), config.eos_token_id, tokenizer.eos_token_id):
        ends.update(tokens if isinstance(tokens, (list, tuple)) else () if tokens is None else (tokens,))
    return frozenset(ends)


def check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise errors.Unavailable(
            f"There is no model folder {str(folder)!r}.",
            code="model_missing",
            hint="Fetch the embedded model with `headway models add smollm2`, or pass a folder.",
        )
    missing = [pattern for pattern in ("config.json", "*.safetensors") if not any(folder.glob(pattern))]
    if missing:
        raise errors.Damaged(
            f"{str(folder)!r} has no {' and no '.join(missing)}, expected a Hugging Face model in safetensors.",
            code="model_damaged",
            hint="A folder needs config.json, tokenizer.json and *.safetensors; pickled weights are never loaded.",
        )


def check_supported(config: Any, folder: Path) -> None:
    """Raise unless the cache of the batch supports the model: it needs attention over the whole past."""
    kinds = set(getattr(config.get_text_config(), "layer_types", None) or ())
    if config.is_encoder_decoder or not kinds <= _ATTENTION:
        raise errors.InvalidInput(
            f"{str(folder)!r} contains a {config.model_type!r} model, which is not a plain decoder with attention.",
            code="model_unsupported",
            hint="Llama, Qwen, Mistral, Gemma, GPT-2 and similar models work.",
        )


def _unusable(folder: Path, error: Exception) -> errors.Damaged:
    reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
    return errors.Damaged(
        f"The model in {str(folder)!r} cannot be loaded: {reason}",
        code="model_damaged",
        hint="Fetch it again (`headway models add`), or load the folder with transformers to see its error.",
    )
