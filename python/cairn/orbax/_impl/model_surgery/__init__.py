"""Transformations of flat dicts of arrays."""
