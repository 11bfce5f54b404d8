"""postgres — the store in one schema of a PostgreSQL database, for several processes and machines.

Takes: a URL.   Gives: a `Database`, as SQLite's is one.
Never: shows a password; loads psycopg where the store is a file.
May import: observe, nouns.
"""

from headway.nouns import Kit

KIT = Kit(
    name="postgres",
    summary="A store that several processes and machines share.",
    stores={
        "postgresql": "headway.kits.postgres.store:Postgres",
        "postgres": "headway.kits.postgres.store:Postgres",
    },
)
