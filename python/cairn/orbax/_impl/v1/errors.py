"""Errors. training.errors has the errors of training.Checkpointer."""


class InvalidLayoutError(ValueError):
    """A path is not a checkpoint of the expected format, or has no such part."""


class DeletionInProgressError(RuntimeError):
    """A deletion is unfinished: delete() with the same arguments ends it."""


class DeletionRecoveryError(RuntimeError):
    """An unfinished deletion cannot be ended by this call."""
