"""The steps of a run: names, policies, saves, and training.Checkpointer."""
