// single_output.h -- SingleOutput, the one file of a save: of this machine, or of a store.
#pragma once

#include <cairn/distributed/process_group.h>
#include <cairn/formats/files/output_lock.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/shared_files.h>
#include <cairn/formats/output/store_output.h>

#include <cstdint>
#include <optional>

namespace cairn::inline v0 {

class SingleOutput {
 public:
  // Checks that the file may be written, locks it, and begins it; `size` is that of the whole file.
  // All processes make one. The group and the place must outlive the object.
  SingleOutput(const distributed::ProcessGroup& group, const OutputPlace& place, std::uint64_t size,
               IfExists if_exists);

  [[nodiscard]] SharedFiles& files() { return *files_; }
  // Gives the file its name. The primary calls it, within SharedFiles::commit.
  void commit();

 private:
  IfExists if_exists_;
  std::optional<OutputLock> lock_;  // held by the primary only
  std::optional<StoreOutput> output_;
  std::optional<SharedFiles> files_;
};

}  // namespace cairn::inline v0
