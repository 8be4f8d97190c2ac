// finalize.h -- checks and merges the files that the processes of one save wrote, so that they form
// one item.
#pragma once

#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <cstddef>
#include <string>

namespace cairn::inline v0::orbax {

// How finalize_item checks and completes an item.
struct FinalizeOptions {
  // Null: names, chunk shapes, write shapes and key implementations must agree.
  ArrayMetadataValidator validator = {};
  // Number of processes that must have recorded array metadata, if any has; 0: any number.
  std::size_t processes = 0;
  bool compares = true;                           // compare the array metadata of the processes
  bool validates = false;                         // validate before merging the databases
  std::size_t threads = 0;                        // as in Resources
  const TypeHandlerRegistry* registry = nullptr;  // whose handlers finalize; null: none
  Observer observer = {};                         // null: none
};
// Completes an item after all processes have written: compares their array metadata, merges their
// databases, calls the type handlers' finalize. Does not make anything durable.
void finalize_item(const std::string& directory, const FinalizeOptions& options);

// Compares the array metadata that the processes recorded in array_metadatas/process_<i>: they must
// describe the same arrays with the same pieces and chunks. If `validator` is null, this function
// compares them itself. Throws data_loss with the file and the array. `processes` is the number of
// processes that must have recorded array metadata, if any process has; 0 accepts any number.
void check_array_metadatas(const std::string& directory, const ArrayMetadataValidator& validator,
                           std::size_t processes);

// merge_ocdbt_per_process_files.
std::size_t merge_databases(const std::string& directory, const MergeOcdbtOptions& options);

}  // namespace cairn::inline v0::orbax
