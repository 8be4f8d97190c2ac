"""Helpers of the other floors. They know nothing about checkpoints."""
