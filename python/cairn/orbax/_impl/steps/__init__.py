"""Directories of steps: their names, which are saved and kept, and the manager."""
