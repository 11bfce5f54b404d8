"""Actions of several heads: the kind of task `factored`, from its keys in headway.toml to its decisions.

space → draw → masks → pipeline → memory → decide: each imports only those before it.
"""
