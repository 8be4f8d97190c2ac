"""Checkpointers: saves that appear complete or not at all."""
