"""nouns — the records, evidence and errors that all rooms share.

Takes: nothing.   Gives: frozen dataclasses, protocols and one error tree.
Never: computes, reads a file, opens a socket, imports a third-party package.
May import: nothing.
"""
