"""The implementation of cairn.orbax.v1. Its names may change."""
