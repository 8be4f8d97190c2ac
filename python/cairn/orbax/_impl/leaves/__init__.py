"""Leaves of trees: how they are saved and restored."""
