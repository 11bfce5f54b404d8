"""Makes tiny random language models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
FAMILIES = ("llama", "qwen2", "gpt2", "mistral")
WINDOW = 256
VOCABULARY = 260  # 256 bytes, and four special tokens


def tokenizer(*, endless: bool = False) -> Any:
    """One token per byte: every character that is not ASCII takes several."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"])
    ends = {} if endless else {"eos_token": "<|im_end|>"}
    built = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|im_start|>", pad_token="<|pad|>", **ends)
    built.chat_template = TEMPLATE
    return built


def make(folder: Path, family: str, *, window: int = WINDOW, endless: bool = False, **more: Any) -> Path:
    """Saves a random model; an endless one has no token that ends a reply. `more`: settings of its config."""
    import torch
    import transformers

    sizes: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": window,
        "eos_token_id": None if endless else 258,
        "bos_token_id": 257,
        "pad_token_id": 259,
        "initializer_range": 0.3,  # far from uniform, so that a wrong place in the cache shows
        **more,
    }
    config: Any
    if family == "llama":
        config = transformers.LlamaConfig(**sizes)
    elif family == "qwen2":
        config = transformers.Qwen2Config(**sizes)
    elif family == "qwen3":
        config = transformers.Qwen3Config(**sizes)
    elif family == "mistral":
        config = transformers.MistralConfig(**{"sliding_window": 8, **sizes})
    else:
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=64,
            n_layer=2,
            n_head=4,
            n_positions=WINDOW,
            eos_token_id=258,
            bos_token_id=257,
        )
        config.initializer_range = 0.3
    torch.manual_seed(0)
    network = transformers.AutoModelForCausalLM.from_config(config)
    network.save_pretrained(folder)
    tokenizer(endless=endless).save_pretrained(folder)
    return folder
