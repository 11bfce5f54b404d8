"""Proving: whom a proof is about (`subject`), the rows that may speak (`rows`), the evidence (`examine`), the plan.

`keys` learns a candidate again without each key's ratings; `regions` says in words where that changes its choices.
"""
