"""Where a language model runs, and in which number format. The only place that chooses either."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

import torch

from headway.nouns.errors import InvalidInput, Unavailable, did_you_mean

__all__ = ["DEVICES", "DTYPES", "Where", "give_back", "use_threads", "where"]

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Where:
    """A device, the format of the weights there, and how much room running requests may take."""

    device: torch.device
    dtype: torch.dtype
    cache_bytes: int  # for keys and values; one request always fits

    @property
    def name(self) -> str:
        return f"{self.device.type} {str(self.dtype).removeprefix('torch.')}"


def where(device: str = "auto", dtype: str = "auto") -> Where:
    """where() is the best there is: bfloat16 on cuda, float16 on mps, float32 on cpu.

    bfloat16 on a CPU is refused: some CPUs announce instructions for it that kill the process when they are used, and
    where they work they are slower than float32.
    """
    kind = device.partition(":")[0]
    if kind not in DEVICES:
        raise InvalidInput(f"There is no device {device!r}.", code="bad_device", hint=did_you_mean(kind, DEVICES))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        kind = device
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[kind]:
        raise Unavailable(f"This machine has no usable {kind!r} device.", code="no_device", hint="Use --device cpu.")
    if dtype == "auto":
        dtype = {"cpu": "float32", "cuda": "bfloat16", "mps": "float16"}[kind]
    if dtype not in DTYPES:
        raise InvalidInput(f"There is no format {dtype!r}.", code="bad_dtype", hint=did_you_mean(dtype, DTYPES))
    if kind == "cpu" and dtype != "float32":
        raise InvalidInput(
            f"{dtype} on a CPU can end the process and is slower.", code="bad_dtype", hint="Use float32 there."
        )
    return Where(torch.device(device), DTYPES[dtype], 8 << 30 if kind == "cuda" else 2 << 30)


def use_threads(count: int) -> None:
    """How many cores one product may use; 0: as torch and OMP_NUM_THREADS have it."""
    if count:
        torch.set_num_threads(count)


def give_back() -> None:
    """Memory of models that are gone goes back to the system, where it would otherwise be kept for the next one."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; musl has none
        if trim is not None:
            trim(0)
