"""The names of items and files in a checkpoint that processes fetch from each other."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.types.kvstore_specs import PROCESS_SUBDIR_PREFIX

__getattr__ = _hints(__name__, general="cairn.orbax does not fetch files from other processes")

P2P_RESTORE_DIR_NAME = "p2p_restore"
STATE_SUBDIR = "state"
DATA_ITER_KEY = "data_iter"
PYGRAIN_STATES_FILENAME = "pygrain_states.json"

__all__ = [
    "DATA_ITER_KEY",
    "P2P_RESTORE_DIR_NAME",
    "PROCESS_SUBDIR_PREFIX",
    "PYGRAIN_STATES_FILENAME",
    "STATE_SUBDIR",
]
