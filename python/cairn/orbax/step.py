"""How the directories of steps are named."""

import re as _re

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.paths.checkpoint_paths import TEMPORARY_MARK as TMP_DIR_SUFFIX
from cairn.orbax._impl.steps.step_names import (
    Metadata,
    MetadataT,
    NameFormat,
    any_checkpoint_step,
    build_step_metadatas,
    build_step_path,
    checkpoint_steps,
    checkpoint_steps_paths,
    composite_name_format,
    find_step_path,
    get_save_directory,
    is_standard_name_format,
    latest_step_metadata,
    maybe_find_step_metadata,
    single_host_load_and_broadcast_name_format,
    standard_name_format,
    step_from_checkpoint_name,
    step_metadata_of_checkpoint_path,
    step_prefix_with_underscore,
    tmp_checkpoints,
)
from cairn.orbax._impl.stored.atomicity import (
    all_temporary_paths,
    is_path_finalized,
    is_path_temporary,
)
from cairn.orbax._impl.stored.atomicity import is_path_finalized as is_checkpoint_finalized
from cairn.orbax._impl.stored.atomicity import is_path_temporary as is_tmp_checkpoint

__getattr__ = _hints(__name__)

# Regular expressions of names with a prefix, and of the temporary directories of steps.
ALLOWED_STEP_NAME_PATTERN = r"(.+)_(\d+)"
TMP_DIR_STEP_PATTERN = rf".*?_*?(\d+){_re.escape(TMP_DIR_SUFFIX)}"

__all__ = [
    "ALLOWED_STEP_NAME_PATTERN",
    "TMP_DIR_STEP_PATTERN",
    "TMP_DIR_SUFFIX",
    "Metadata",
    "MetadataT",
    "NameFormat",
    "all_temporary_paths",
    "any_checkpoint_step",
    "build_step_metadatas",
    "build_step_path",
    "checkpoint_steps",
    "checkpoint_steps_paths",
    "composite_name_format",
    "find_step_path",
    "get_save_directory",
    "is_checkpoint_finalized",
    "is_path_finalized",
    "is_path_temporary",
    "is_standard_name_format",
    "is_tmp_checkpoint",
    "latest_step_metadata",
    "maybe_find_step_metadata",
    "single_host_load_and_broadcast_name_format",
    "standard_name_format",
    "step_from_checkpoint_name",
    "step_metadata_of_checkpoint_path",
    "step_prefix_with_underscore",
    "tmp_checkpoints",
]
