"""The caller's trees."""
