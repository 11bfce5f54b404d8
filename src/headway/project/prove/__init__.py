"""Proving: whom a proof is about (`subject`), the rows that may speak (`rows`), the evidence (`examine`), the plan."""
