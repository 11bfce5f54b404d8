"""loop — the background loop: learns, proves, promotes or waits when it is due; keeps the processes of `up` alive.

Takes: a project's folder.   Gives: rows in ledger and jobs, one page per cycle, living processes.
Never: changes the live policy without evidence, asks the server for more than its health and a link to the page.
May import: project, settings, promote, prove, decide, observe, encode, client, files, nouns.
"""
