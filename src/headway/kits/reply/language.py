"""A local language model from any Hugging Face folder, with exact log-probabilities.

    from headway.kits.reply.language import LanguageModel

    model = LanguageModel.load(Path("smollm2"))                       # a folder, once
    model.generate([Prompt(text="The capital of France is", max_tokens=8, temperature=0)])
    for delta in model.stream(Prompt(turns=(Turn("user", "Hello"),))): ...
    model.score(prompt, " Paris.").logprobs

model      the folder, its tokeniser and template, generate, stream, score
batch      many requests at once: they join and leave a running batch between two tokens
engines    openvino and transformers: the next token of every row, with an adapter
sampling   temperature, top-p, the draw, both log-probabilities
tokens     prompts into tokens, tokens into text
formats    what a smaller number format changes
device     device and number format

Importing this module imports torch and transformers.
"""

from headway.nouns import errors

try:
    import torch as _torch
    import transformers as _transformers
except ImportError as error:
    raise errors.MissingExtra("A local language model", error.name or "torch", "language") from error

from headway.kits.reply.batch import Request, RunningBatch
from headway.kits.reply.device import Where, give_back, use_threads, where
from headway.kits.reply.model import COMPRESSED, LanguageModel

__all__ = ["COMPRESSED", "LanguageModel", "Request", "RunningBatch", "Where", "give_back", "use_threads", "where"]
del _torch, _transformers
