"""Codecs: a slice's bytes to columns and back."""
