"""One side of the training comparison in a process of its own: our trainer, or TRL's KTOTrainer.

    python benchmarks/_language/training.py {headway,trl} --model FOLDER --steps 6 [--batch 4] [--device cuda]

Both sides train the same LoRA adapter (rank 16, alpha 32, all linear layers) on the same rated replies by KTO: the same
batches, the reference of the base computed before, one mismatched pair per reply, the same optimiser, no dropout, no
checkpointing. The last line is JSON: tokens of the replies with their prompts per second (CPU seconds on a CPU), over
all steps but the first, and the peak memory.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

PROMPT, REPLY = (24, 48), (16, 64)
LONG_PROMPT, LONG_REPLY = (64, 128), (128, 384)


def rows_of(count: int, vocabulary: int, *, long: bool) -> list[tuple[list[int], list[int], bool]]:
    """Random rated replies: prompt, reply, liked."""
    draws = random.Random(7)
    prompt, reply = (LONG_PROMPT, LONG_REPLY) if long else (PROMPT, REPLY)

    def tokens(limits: tuple[int, int]) -> list[int]:
        return [draws.randrange(100, vocabulary) for _ in range(draws.randint(*limits))]

    return [(tokens(prompt), tokens(reply), place % 2 == 0) for place in range(count)]


def ours(options: argparse.Namespace, rows: list[tuple[list[int], list[int], bool]]) -> dict[str, float]:
    from headway.kits.reply.knobs import knobs_from
    from headway.kits.reply.learn.data import Sample
    from headway.kits.reply.learn.kto import Kto
    from headway.kits.reply.learn.trainer import Trainer
    from headway.kits.reply.learn.tuned import TunedModel

    tuned = TunedModel.load(options.model, seed=0, device=options.device)
    samples = [
        Sample(
            id=f"{place:04}", cluster=str(place), prompt=tuple(prompt), reply=tuple(reply), logged=(),
            reward=1.0 if liked else -1.0, desirable=liked, weight=1.0, at=float(place),
        )
        for place, (prompt, reply, liked) in enumerate(rows)
    ]  # fmt: skip
    knobs = knobs_from(
        {"batch": options.batch, "epochs": 1, "anchors": 0, "curriculum": False, "device": options.device}
    )  # fmt: skip
    trainer = Trainer(tuned, samples, Kto(likelihood=0.0, mismatched=1.0), knobs, seed=0)
    marks: list[tuple[float, int]] = []
    trainer.run(lambda *_: marks.append((now(options.device), trainer.counts.tokens)))
    return speed(marks)


def theirs(options: argparse.Namespace, rows: list[tuple[list[int], list[int], bool]]) -> dict[str, float]:
    import torch
    from datasets import Dataset, fingerprint
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import KTOConfig, KTOTrainer

    # Fingerprints name caches, which are not used here; some versions of pyarrow cannot be pickled for them.
    fingerprint.Hasher.hash = classmethod(lambda _, __: uuid.uuid4().hex)

    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    model: Any = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype).to(options.device)
    tokenizer: Any = AutoTokenizer.from_pretrained(options.model)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    # The trainer takes texts: each word of this vocabulary is one token, so that both sides read the same tokens.
    words = words_of(tokenizer)
    data = Dataset.from_list(
        [
            {
                "prompt": "".join(words[token % len(words)] for token in prompt),
                "completion": "".join(words[token % len(words)] for token in reply),
                "label": liked,
            }
            for prompt, reply, liked in rows
        ]
    )
    marks: list[tuple[float, int]] = []
    lengths = [len(prompt) + len(reply) + 1 for prompt, reply, _ in rows]

    class Marks(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, _: Any, state: Any, __: Any, **___: Any) -> None:
            marks.append((now(options.device), sum(lengths[: state.global_step * options.batch])))

    with tempfile.TemporaryDirectory() as folder:
        config = KTOConfig(
            output_dir=folder, per_device_train_batch_size=options.batch, max_steps=len(rows) // options.batch,
            gradient_checkpointing=False, precompute_ref_log_probs=True, learning_rate=5e-5, report_to=[],
            logging_strategy="no", save_strategy="no", bf16=options.device == "cuda", fp16=False, disable_tqdm=True,
            use_cpu=options.device == "cpu", dataloader_pin_memory=False, lr_scheduler_type="constant",
            pad_to_multiple_of=64 if options.device == "cuda" else None,  # as ours: each new length costs a GPU time
        )  # fmt: skip
        lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
        trainer = KTOTrainer(
            model=model, args=config, train_dataset=data, processing_class=tokenizer, peft_config=lora,
            callbacks=[Marks()],
        )  # fmt: skip
        trainer.train()
    return speed(marks)


def words_of(tokenizer: Any) -> list[str]:
    """Words that are one token each, whatever comes before."""
    words = [
        f" {word}"
        for word in [
            "the",
            "time",
            "people",
            "water",
            "world",
            "small",
            "house",
            "river",
            "green",
            "music",
            "light",
            "paper",
        ]
    ]
    return [word for word in words if len(tokenizer(word, add_special_tokens=False)["input_ids"]) == 1]


def now(device: str) -> float:
    if device == "cpu":
        return time.process_time()
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


def speed(marks: list[tuple[float, int]]) -> dict[str, float]:
    """Tokens per second after the first step."""
    (began, before), (ended, after) = marks[0], marks[-1]
    return {"tokens_per_s": (after - before) / (ended - began), "steps": len(marks)}


def _peak_mb() -> float:
    """The most memory that this program held. ru_maxrss would count what its parent held before it started it."""
    status = Path("/proc/self/status")
    if status.exists():
        held = next(line for line in status.read_text("ascii").splitlines() if line.startswith("VmHWM:"))
        return int(held.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("headway", "trl"))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    import torch
    from transformers import AutoConfig

    if options.device == "cpu":
        torch.set_num_threads(1)
    vocabulary = AutoConfig.from_pretrained(options.model).vocab_size
    rows = rows_of(options.steps * options.batch, vocabulary, long=options.device == "cuda")
    told = ours(options, rows) if options.side == "headway" else theirs(options, rows)
    if options.device == "cuda":
        told["peak_mb"] = torch.cuda.max_memory_allocated() / 2**20
    else:
        told["peak_mb"] = _peak_mb()
    sys.stdout.flush()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
