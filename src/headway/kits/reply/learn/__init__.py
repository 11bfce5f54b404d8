"""How a local language model learns from ratings: data, losses, the learners `sft`, `kto` and `ppo`.

data          rated replies into samples; a fifth of the prompts is held out for ever
losses        pure functions of log-probabilities
lora          an adapter on a frozen network
scorer        log-probabilities of replies, with gradients
anchors       general texts, by which the distance to the base is measured
trainer       updates under a KL budget, with snapshots from which an interrupted run continues bit for bit
sft, kto, ppo the learners
memory        few-shot examples while there are too few ratings to train
forgetting    replay, EWC, averaging, curriculum
"""
