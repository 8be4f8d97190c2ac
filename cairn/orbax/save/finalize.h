// finalize.h -- what the processes of one save wrote, made one item.
#pragma once

#include <cairn/pytree_checkpoint_handler.h>

#include <cstddef>
#include <string>

namespace cairn::orbax {

// Compares what the processes recorded of their arrays, array_metadatas/process_<i>: the same
// arrays, in the same pieces and chunks. validator null: that is compared here. Throws data_loss
// naming the file and the array. processes: how many must have recorded something, if any has; 0:
// whoever did.
void check_array_metadatas(const std::string& directory, const ArrayMetadataValidator& validator,
                           std::size_t processes);

// Puts the databases ocdbt.process_*, if there are any, into the item's own, by reference, in one
// commit. With `validate`, arrays with metadata and no chunk, and the other way round, are
// data_loss (Zarr v2).
void merge_process_databases(const std::string& directory, bool validate);

}  // namespace cairn::orbax
