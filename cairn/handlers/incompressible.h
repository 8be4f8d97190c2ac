// incompressible.h -- finds the arrays of a save that zstd would not shrink. In Zarr v3, Cairn
// stores them as they are, with a crc32c for each chunk.
//
// In Zarr v3, the codecs belong to the metadata of the array, so all chunks, of all processes, need
// one choice, before the first chunk is written. It depends on samples of the elements alone, not
// on the speed of the store: it is the same in the next step, which may then share files.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/bytes.h>
#include <cairn/compression.h>
#include <cairn/orbax/item_storage.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0::handlers {

// What samples of an array show. A greater value overrules a smaller one.
enum class Sampled : std::uint8_t {
  kNothing,         // no elements of the stored type are in memory
  kIncompressible,  // zstd would save less than a tenth
  kShrinks,         // zstd would save a tenth or more, or must be kept for another reason
};

// Samples the elements of each array that this process has in memory: `data`, or parts. Arrays that
// are fetched, copied from devices or cast are kNothing, because their elements do not exist yet.
// So are arrays of less than 16 KiB.
std::vector<Sampled> sample_arrays(std::span<const StoreArray> arrays, Executor& executor);
// Returns whether incompressible arrays of such a save are stored as they are, with checksums.
bool stores_incompressible_raw(int zarr_format, const Compression& compression);

// Returns the message about the arrays in which a process sends its samples to the others: of
// arrays that processes store together.
Bytes sampled_message(std::span<const StoreArray> arrays, std::span<const Sampled> sampled);
// Combines the samples with those in the messages of all processes. If the processes do not have
// the same arrays, shared arrays become kNothing; the save then fails, with a better message.
void merge_sampled(std::span<const StoreArray> arrays, std::span<const Bytes> messages,
                   std::vector<Sampled>& sampled);

}  // namespace cairn::inline v0::handlers
