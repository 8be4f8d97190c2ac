"""Handlers of checkpointables: interfaces, registration, and those that are there."""
