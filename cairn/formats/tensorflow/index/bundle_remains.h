// bundle_remains.h -- what is left of a damaged index of a TensorFlow checkpoint: the entries of
// its whole blocks (sstable_salvage.h).
#pragma once

#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/formats/tensorflow/index/sstable_salvage.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

struct BundleRemains {
  std::optional<BundleHeader> header;                            // nullopt: it is lost
  std::vector<std::pair<std::string, BundleEntry>> entries;      // sorted by key
  std::vector<std::pair<std::string, std::string>> not_decoded;  // (key, why)
  SstableRemains table;
};

// Reads the entries that are left. Throws for no damage.
BundleRemains read_bundle_remains(std::uint64_t size, const SstableReadFn& read);
// As check_bundle_table(), but a tensor that a check refuses, and one of which only slices are
// left, gets `why_lost`, and a slice without an entry is one of `lost_slices`. Throws unimplemented
// if the version of the file is too new.
BundleIndex check_bundle_remains(const BundleHeader& header, BundleRemains remains);

}  // namespace cairn::inline v0
