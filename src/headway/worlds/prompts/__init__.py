"""Prompts: five mutations, a corpus with checkable answers, prompt classes, and the world that practises on them.

mutations.py   mutate(prompt, kind, rng) → Variation; allowed(prompt)
corpus.py      prompts whose answers can be checked, and the checks
tasks.py       checkable prompts without end, one simple task per class
checks.py      the outcome executor: exact, includes, regex, numeric, json, code (in a sandbox)
classes.py     which of seven classes a prompt is of, by the encoder, with confidence
phrases.py     a generator of prompts for the synthetic mode
synthetic.py   a world whose optimum per class is known; world.py: its vectorised environment
outcomes.py    the real-model mode: what a model answers, checked
worth.py       what a way of choosing is worth there, on prompts kept apart
"""
