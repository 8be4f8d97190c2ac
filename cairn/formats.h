// formats.h -- the other formats: safetensors (read and write), npy/npz (write), flax msgpack (read), and detection.
#pragma once

#include <cairn/reader.h>
#include <cairn/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

enum class Format : std::uint8_t { kOrbax, kSafetensors, kMsgpack };
std::string_view format_name(Format format);
// By looking at the path and the first bytes, never by extension alone; nullopt for a path that is none of the formats a
// file can have (directories are the business of is_orbax). Throws not_found if nothing is there.
std::optional<Format> detect_file(const std::string& path);

// ---- safetensors ----
// A .safetensors file, or a *.safetensors.index.json with its shards. Header checks as strict as the reference's.
std::unique_ptr<Checkpoint> open_safetensors(const std::string& path, const OpenOptions& options = {});
// The safetensors spelling ("F32", "BF16", "F8_E4M3"); nullopt for a type safetensors cannot hold.
std::optional<std::string_view> safetensors_dtype(DType dtype);

// One tensor to be written.
struct TensorSource {
  std::string name;
  DType dtype = DType::kUint8;
  Shape shape;
  // Where a large tensor is best cut into pieces: at multiples of this many bytes (its rows of stored chunks), so that no
  // chunk is decoded twice. 0: anywhere between elements. A hint: one that does not fit the buffer may be ignored.
  std::uint64_t cut = 0;
};
// A run of the C-order, little-endian bytes of sources[tensor], as long as `out`; begins and ends between elements.
struct TensorPiece {
  std::size_t tensor = 0;  // index into the sources as they were passed, whatever the order of writing
  std::uint64_t offset = 0;
  MutableByteView out;
};
// Fills every piece. Called with as many consecutive pieces as fit the writer's buffer (thousands of small tensors, or
// part of a large one), in the order of writing, each byte exactly once; never from two threads at once.
using FetchFn = std::function<void(std::span<const TensorPiece> pieces)>;

struct SafetensorsWriteOptions {
  std::vector<std::pair<std::string, std::string>> metadata;  // __metadata__
  std::optional<std::uint64_t> max_shard_bytes;               // more: <stem>-00001-of-0000N.safetensors and an index
  bool replace = false;                                       // an existing target is refused otherwise
  std::uint64_t memory = std::uint64_t{1} << 30U;             // buffer bytes in flight
  ProgressFn progress;
};
// Writes tensors in the reference's order (by alignment descending, then name), to a temporary and renamed.
// Throws invalid_argument for a dtype the format cannot hold, naming the tensor.
// Returns the files written.
std::vector<std::string> write_safetensors(const std::string& path, std::vector<TensorSource> tensors, const FetchFn& fetch,
                                           const SafetensorsWriteOptions& options);

// ---- npy and npz ----
struct NpzWriteOptions {
  bool replace = false;
  std::uint64_t memory = std::uint64_t{1} << 30U;
  ProgressFn progress;
};
// The descr of a NumPy header: "<f4"; types NumPy lacks are written as raw "|V2" / "|V1" elements, documented in docs/npz.md.
std::string npy_descr(DType dtype);
// Header of a .npy file (version 1.0, or 2.0 for long ones), padded to 64 bytes.
Bytes npy_header(DType dtype, std::span<const std::int64_t> shape);
// An uncompressed (stored) zip with one <name>.npy per tensor; zip64 where needed; CRC-32 filled. numpy.load reads it.
void write_npz(const std::string& path, const std::vector<TensorSource>& tensors, const FetchFn& fetch, const NpzWriteOptions& options);

// ---- flax msgpack ----
// A flax / Orbax msgpack file as a checkpoint: arrays are read lazily from their place in the file.
std::unique_ptr<Checkpoint> open_msgpack(const std::string& path, const OpenOptions& options = {});

}  // namespace cairn
