"""A local language model that answers: any Hugging Face folder, on this machine, with exact log-probabilities.

    from headway.kits.reply.language import LanguageModel

    model = LanguageModel.load(Path("smollm2"))                       # a folder, once
    model.generate([Prompt(text="The capital of France is", max_tokens=8, temperature=0)])
    for delta in model.stream(Prompt(turns=(Turn("user", "Hello"),))): ...
    model.score(prompt, " Paris.").logprobs

model      the folder, its tokeniser and template, generate, stream, score
batch      many requests at once: they join and leave a running batch between two tokens
fast       a lean forward pass for networks of the Llama shape
cache      keys and values of the running rows
sampling   temperature, top-p, the draw, both log-probabilities
wording    conversations into tokens, tokens into text as they come
where      device and number format

torch and transformers are imported here and nowhere else in `decide`.
"""

from headway.nouns.errors import MissingExtra

try:
    import torch as _torch
    import transformers as _transformers
except ImportError as error:
    raise MissingExtra("A local language model", error.name or "torch", "language") from error

from headway.kits.reply.batch import Batch, Request
from headway.kits.reply.device import Where, give_back, use_threads, where
from headway.kits.reply.model import LanguageModel

__all__ = ["Batch", "LanguageModel", "Request", "Where", "give_back", "use_threads", "where"]
del _torch, _transformers
