"""loop — the night shift: sees what is due, learns, proves, promotes or waits; keeps the processes of `up` alive.

Takes: a project's folder.   Gives: rows in ledger and jobs, one page per cycle, living processes.
Never: speaks HTTP, changes who is live without evidence, talks to the server but through the store.
May import: project, settings, promote, prove, decide, observe, encode, client, nouns.
"""
