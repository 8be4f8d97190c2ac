"""What cairn.orbax.test_utils has for tests."""
