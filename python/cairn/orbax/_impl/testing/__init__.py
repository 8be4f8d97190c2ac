"""The implementation of cairn.orbax.test_utils."""
