// finalize.h -- checks and merges the files that the processes of one save wrote, so that they form
// one item.
#pragma once

#include <cairn/kvstore/folders/output_folder.h>
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
  bool merges = true;                             // merge the databases of the processes, if any
  bool validates = false;                         // validate before merging the databases
  std::size_t threads = 0;                        // as in Resources
  const TypeHandlerRegistry* registry = nullptr;  // whose handlers finalize; null: none
  Observer observer = {};                         // null: none
};
// Completes an item after all processes have written: compares their array metadata, merges their
// databases, calls the type handlers' finalize. The array metadata must describe the same arrays
// with the same pieces and chunks: else throws data_loss with the file and the array. Does not make
// anything durable.
void finalize_item(const OutputFolder& directory, const FinalizeOptions& options);

// merge_ocdbt_per_process_files.
std::size_t merge_databases(const OutputFolder& directory, const MergeOcdbtOptions& options);

}  // namespace cairn::inline v0::orbax
