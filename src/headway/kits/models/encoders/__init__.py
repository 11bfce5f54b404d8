"""Encoders that need a model or an endpoint."""
