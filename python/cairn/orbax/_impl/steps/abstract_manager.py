"""The interface of managers."""

from typing import Any


class AbstractCheckpointManager:
    """The interface of managers."""

    @property
    def directory(self) -> Any:
        """The directory of the steps."""
        raise NotImplementedError

    def all_steps(self, read: bool = False) -> "list[int]":
        """The steps."""
        raise NotImplementedError

    def latest_step(self) -> "int | None":
        """The step that was saved last."""
        raise NotImplementedError

    def best_step(self) -> "int | None":
        """The best step."""
        raise NotImplementedError

    def reload(self) -> None:
        """Lists the directory again."""
        raise NotImplementedError

    def reached_preemption(self, step: int) -> bool:
        """Whether a process is about to be ended."""
        raise NotImplementedError

    def should_save(self, step: int) -> bool:
        """Whether save() would save the step."""
        raise NotImplementedError

    def delete(self, step: int) -> None:
        """Removes a step."""
        raise NotImplementedError

    def save(self, step: int, *args: Any, **kwargs: Any) -> bool:
        """Saves a step."""
        raise NotImplementedError

    def restore(self, step: "int | None" = None, *args: Any, **kwargs: Any) -> Any:
        """Restores a step."""
        raise NotImplementedError

    def item_metadata(self, step: int) -> Any:
        """The metadata of the items of a step."""
        raise NotImplementedError

    def metadata(self, step: "int | None" = None) -> Any:
        """The metadata of a step or of the directory."""
        raise NotImplementedError

    def metrics(self, step: int) -> Any:
        """The metrics of a step."""
        raise NotImplementedError

    def wait_until_finished(self) -> None:
        """Waits for the save."""
        raise NotImplementedError

    def check_for_errors(self) -> None:
        """Raises the error of a save."""
        raise NotImplementedError

    def close(self) -> None:
        """Waits, and ends all work."""
        raise NotImplementedError
