"""improve — the loop that improves a repository.

settings.py      [improve.NAME]
proposals.py     what a proposal is; sources.py: a file, a command or a model that proposes
file_rules.py    which files a proposal may change
repository.py    git: a worktree of its own, the change, the commit, the branch
evaluation.py    the user's command on a copy, in the sandbox, and the number that it prints
paired_test.py   keep or revert, from pairs of measurements
journal.py       what happened, durably; run_state.py: where a run stands; results.py: results.tsv
rounds.py        one round; run.py: a whole run, and improvers that take turns
forecasts.py     predictions against outcomes
"""
