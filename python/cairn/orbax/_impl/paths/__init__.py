"""Paths, small files and permissions."""
