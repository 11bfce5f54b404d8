"""loop — the background loop: learns, proves, promotes or waits when it is due; keeps the processes of `up` alive.

Takes: a project's folder.   Gives: rows in ledger and jobs, one page per cycle, living processes.
Never: uses HTTP, changes the live policy without evidence, talks to the server except through the store.
May import: project, settings, promote, prove, decide, observe, encode, client, files, nouns.
"""
