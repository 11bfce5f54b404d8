"""Packages of `integrations/` against the programs that they are for."""
