"""Paths: step."""

from cairn.orbax import step

__all__ = ["step"]
