"""Handlers: they save and restore one kind of item each."""
