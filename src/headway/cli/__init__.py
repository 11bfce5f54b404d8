"""cli — the terminal door: one command per verb, for people and for scripts.

Takes: command lines.   Gives: tables and colour on a terminal, plain lines elsewhere, one JSON document with --json.
Never: decides, learns or judges by itself; prints anywhere but in output.py; loads numpy or rich to show a help page.
May import: serve, loop, project, settings, promote, prove, decide, reward, observe, encode, client, files, nouns.
"""
