"""nouns — what we speak of: the records, evidence and errors that every room passes around.

Takes: nothing.   Gives: frozen dataclasses, protocols and one error tree.
Never: computes, reads a file, opens a socket, imports a third-party package.
May import: nothing.
"""
