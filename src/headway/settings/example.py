"""The headway.toml that `headway init` writes."""

from __future__ import annotations

_EXAMPLE = """\
# The settings of Headway. Every key: docs/reference/settings.md. `headway doctor` checks this file.

[tasks.route]
kind = "choice"                               # other kinds: docs/reference/settings.md
actions = ["small", "large"]                  # names of [upstreams.*], or any strings
reward = { solved = 1.0, cost_usd = -20.0 }   # signal = weight; other signals are stored, not counted
                                              # 1 / 20: one solved answer is worth $0.05; `headway tradeoff route`
                                              # shows what other weights would save
range = [-1, 1]                               # of the reward; a failed call is worth the low end
# on_failure = -0.5                           # what a failed call is worth instead; "exclude" omits it
# on_censored = "exclude"                     # what a decision without signals is worth …
# reward_after_s = 86400                      # … after one day
# missing = "at random"                       # they are missing by chance; otherwise a proof counts the worst case
rules = [{ when = "task_complexity_score > 0.8 or primary_failure_count >= 2", use = "large" }]
fallback = "small"                            # when no rule matches
promote = "ask"                               # or "auto": promote as soon as the gate passes
# final_after_s = 86400                       # "auto" waits until the log is that old: outcomes may change
# trust_keys = ["judge"]                      # keys whose ratings alone may decide a verdict
# family = "bandit"                           # how the policy learns; each kind has a default
# encoder = "hashing"                         # or "wordllama", "minilm", { url = "…", model = "…" }
# explore = { kind = "epsilon", value = 0.1 } # or "softmax", "squarecb", "thompson", "none"
# floor = 0.02                                # share of uniform decisions, after promotion too
# keep_replies = true                         # keep what upstreams answer, without secrets, to read and rate it
# guards = { latency_s = { tolerance = 0.5, range = [0, 60] } }  # signals that a new policy must not make worse

# [upstreams.small]
# url = "http://127.0.0.1:11434/v1"
# model = "qwen3:4b"

# [upstreams.large]
# url = "https://llm.example.com/v1"
# model = "big-model"
# key_env = "LARGE_API_KEY"                   # the variable that holds the key, never the key itself
# price_in = 3.0                              # US dollars per million tokens
# price_out = 15.0

# [server]
# host = "127.0.0.1"                          # any other address requires keys for every request
# port = 8765

# [store]
# url = "sqlite"                              # one file under .headway/; or "postgresql://user@host/database"
# durability = "power"                        # or "process": faster, may lose the last writes in a power cut

# [watch]
# interval_s = 30                             # how often the background loop checks for work
# window = "02:00-06:00"                      # train only at these times; omit for any time

# [alerts]
# webhook = "https://example.com/hooks/headway"  # told once about every alarm: outcomes have changed
# command = ["notify-send", "Headway"]        # run with the sentence as its last argument

# [kits]
# use = []                                    # installed kits that Headway may import
"""


def example() -> str:
    """A commented file that loads as it is; every commented-out setting loads too once it is uncommented."""
    return _EXAMPLE
