"""Handlers of the types of leaves."""
