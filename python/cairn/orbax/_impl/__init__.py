"""The parts of cairn.orbax. Use the names of cairn.orbax; those here may change."""
