"""Choose the device and the number format of a language model. No other module chooses them."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

from headway.nouns import errors

try:
    import torch
    import transformers as _transformers
except ImportError as error:
    raise errors.MissingExtra("A local language model", error.name or "torch", "language") from error

del _transformers

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Where:
    """A device, the number format of the weights, and the memory for running requests."""

    device: torch.device
    dtype: torch.dtype
    cache_bytes: int  # for keys and values; one request always fits

    @property
    def name(self) -> str:
        return f"{self.device.type} {str(self.dtype).removeprefix('torch.')}"


def where(device: str = "auto", dtype: str = "auto") -> Where:
    """The best device by default: bfloat16 on cuda, float16 on mps, float32 on cpu.

    Other formats on a CPU are refused: some CPUs announce bfloat16 instructions that kill the process, and where the
    instructions work, they are slower than float32.
    """
    kind = device.partition(":")[0]
    if kind not in DEVICES:
        raise errors.InvalidInput(
            f"There is no device {device!r}.", code="bad_device", hint=errors.did_you_mean(kind, DEVICES)
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        kind = device
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available[kind]:
        raise errors.Unavailable(
            f"This machine has no usable {kind!r} device.", code="no_device", hint="Use --device cpu."
        )
    if dtype == "auto":
        dtype = {"cpu": "float32", "cuda": "bfloat16", "mps": "float16"}[kind]
    if dtype not in DTYPES:
        raise errors.InvalidInput(
            f"There is no number format {dtype!r}.", code="bad_dtype", hint=errors.did_you_mean(dtype, DTYPES)
        )
    if kind == "cpu" and dtype != "float32":
        raise errors.InvalidInput(
            f"{dtype} on a CPU can kill the process and is slower than float32.", code="bad_dtype", hint="Use float32."
        )
    return Where(torch.device(device), DTYPES[dtype], 8 << 30 if kind == "cuda" else 2 << 30)


def use_threads(count: int) -> None:
    """Limit the cores of one matrix product; 0 keeps the default of torch and OMP_NUM_THREADS."""
    if count:
        torch.set_num_threads(count)


def give_back() -> None:
    """Return the memory of unloaded models to the system."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; musl has none
        if trim is not None:
            trim(0)
