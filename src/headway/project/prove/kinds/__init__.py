"""Kinds of evidence: the registry. Logged decisions are examined in `project.prove.examine`."""
