"""worlds — where situations come from when no user has sent one: generators whose true values are known.

Takes: a name, how many, a seed.   Gives: situations, and what any action would have earned in them.
Never: stores a row, learns, pretends to be real traffic: everything here is synthetic and says so.
May import: encode, client, nouns.
"""
