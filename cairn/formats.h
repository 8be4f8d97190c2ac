// formats.h -- the other formats: safetensors and flax msgpack (read and write), npy and npz (read; npz: write), and detection.
#pragma once

#include <cairn/distributed.h>
#include <cairn/reader.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

class ShardingCallback;

enum class Format : std::uint8_t { kOrbax, kSafetensors, kMsgpack, kNpz, kNpy, kTensorflow };
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
  // Only where a writer cuts tensors (write_tensorflow with a sharding callback): the part of the tensor whose bytes these are a run of.
  const Box* part = nullptr;
};
// Fills every piece. Called with as many consecutive pieces as fit the writer's buffer (thousands of small tensors, or
// part of a large one), in the order of writing, each byte exactly once; never from two threads at once.
using FetchFn = std::function<void(std::span<const TensorPiece> pieces)>;
// For tensors that are all in memory, in the order of the sources. What the views refer to outlives the function.
FetchFn fetch_from(std::vector<ArrayView> arrays);

struct SafetensorsWriteOptions {
  std::vector<std::pair<std::string, std::string>> metadata;  // __metadata__
  std::optional<std::uint64_t> max_shard_bytes;               // more: <stem>-00001-of-0000N.safetensors and an index
  // Instead: each of its shards is such a file (checkpoint_sharding.h). The keys are the names; tensors must stay whole.
  std::shared_ptr<const ShardingCallback> sharding_callback;
  bool replace = false;                            // an existing target is refused otherwise
  std::uint64_t memory = std::uint64_t{1} << 30U;  // buffer bytes in flight
  ProgressFn progress;
  // Several processes write one set, which must see the same folder: each calls with the same arguments, fetches and writes its share
  // of the bytes, and gets what one process would write. What fails in one fails in all, and nothing appears.
  MultiprocessingOptions multiprocessing;
};
// Writes tensors in the reference's order (by alignment descending, then name), to a temporary and renamed.
// Throws invalid_argument for a dtype the format cannot hold, and for a tensor that the sharding callback cuts, naming the tensor.
// Returns the files written.
std::vector<std::string> write_safetensors(const std::string& path, std::vector<TensorSource> tensors, const FetchFn& fetch,
                                           const SafetensorsWriteOptions& options);

// ---- npy and npz ----
// An archive of .npy files as numpy.savez and savez_compressed write it, or one .npy file, whose array gets the file's name. Arrays
// of any NumPy type but objects and structures. Stored members are read in place, in parallel; deflated ones from the front, in
// bounded memory. The archive's CRC-32 of an array is checked before anything of it is handed out.
std::unique_ptr<Checkpoint> open_npz(const std::string& path, const OpenOptions& options = {});
std::unique_ptr<Checkpoint> open_npy(const std::string& path, const OpenOptions& options = {});
struct NpzWriteOptions {
  bool replace = false;
  std::uint64_t memory = std::uint64_t{1} << 30U;
  ProgressFn progress;
  MultiprocessingOptions multiprocessing;  // as in SafetensorsWriteOptions
};
// The descr of a NumPy header: "<f4"; types NumPy lacks are written as raw "|V2" / "|V1" elements, documented in docs/npz.md.
std::string npy_descr(DType dtype);
// Header of a .npy file (version 1.0, or 2.0 for long ones), padded to 64 bytes.
Bytes npy_header(DType dtype, std::span<const std::int64_t> shape);
// An uncompressed (stored) zip with one <name>.npy per tensor; zip64 where needed; CRC-32 filled. numpy.load reads it.
void write_npz(const std::string& path, const std::vector<TensorSource>& tensors, const FetchFn& fetch, const NpzWriteOptions& options);

// ---- TensorFlow ----
// A checkpoint of TensorFlow 2 (TensorBundle), by its prefix (of <prefix>.index and <prefix>.data-00000-of-00001), its index, a data
// file, a `checkpoint` file or the folder of one (its latest checkpoint, or that of options.step), or a SavedModel's folder.
// Names are keys as stored; paths are what is between their slashes. Slices of partitioned variables are put together. The checksum
// of everything read is checked: of what is read in part, the whole is read once. A missing data file makes its tensors unreadable.
std::unique_ptr<Checkpoint> open_tensorflow(const std::string& path, const OpenOptions& options = {});
// Whether there is something that open_tensorflow would open. Looks at names and first bytes only.
bool is_tensorflow(const std::string& path);

// ---- flax msgpack ----
// A flax / Orbax msgpack file as a checkpoint: arrays are read lazily from their place in the file.
std::unique_ptr<Checkpoint> open_msgpack(const std::string& path, const OpenOptions& options = {});

// Whose bytes to write; both read each other's, except for tuples, which flax hands over as raw extension objects.
enum class MsgpackDialect : std::uint8_t {
  kFlax,       // flax.serialization.msgpack_serialize: lists are lists; tuples and named tuples are refused
  kFlaxState,  // flax.serialization.to_bytes: lists and tuples become dicts "0", "1", ..., named tuples dicts of their fields
  kOrbax,      // Orbax's msgpack_utils: lists are lists, tuples and named tuples are tuples
};
struct MsgpackOptions {
  MsgpackDialect dialect = MsgpackDialect::kFlax;
  // kSorted is what both packages' msgpack_serialize does; with in_place=True, and in to_bytes, they keep kBuilt.
  DictOrder order = DictOrder::kSorted;
  // An array of more bytes is cut into flat pieces of at most this many where it is the root or a value of dicts alone.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 30U;
};
// The very bytes that the package would write. Throws invalid_argument, naming the leaf, for what it refuses, too: placeholders
// and other leaves without a value, texts that are not UTF-8, an object of more than 2^32 - 1 bytes; and for elements of kOpaque
// types, more than 1000 levels, and custom leaves.
Bytes msgpack_serialize(const Tree& tree, const MsgpackOptions& options = {});
// The reverse, whoever wrote them: tuples, NumPy scalars, complex numbers and bytes come back as such; dicts in the order of the
// bytes, integer keys as their decimals. Arrays share `owner`, which keeps `bytes` alive, where there is one and their place is
// aligned, and own a copy elsewhere. Throws data_loss for damaged bytes, unimplemented for unknown extension types.
Tree msgpack_restore(ByteView bytes, const std::shared_ptr<const void>& owner = nullptr);

// In a tree to be written: a leaf whose values are fetched when they are due (CustomLeaf::of(SourceLeaf{...})).
struct SourceLeaf {
  enum class As : std::uint8_t { kArray, kBytes };
  std::size_t index = 0;  // of the sources
  As as = As::kArray;     // kBytes: a bytes object of the source's bytes
};
struct MsgpackWriteOptions {
  MsgpackOptions encoding;
  bool replace = false;                            // an existing target is refused otherwise
  std::uint64_t memory = std::uint64_t{1} << 30U;  // buffer bytes in flight, of fetched arrays
  ProgressFn progress;
  MultiprocessingOptions multiprocessing;  // as in SafetensorsWriteOptions; what is in memory is written by one
};
// The same bytes as a file, which appears whole or not at all. Arrays go from their memory to the file.
void write_msgpack(const std::string& path, const Tree& tree, const MsgpackWriteOptions& options = {});
// With SourceLeafs in the tree: values are fetched a buffer at a time, in the order of the file.
void write_msgpack(const std::string& path, const Tree& tree, std::span<const TensorSource> sources, const FetchFn& fetch,
                   const MsgpackWriteOptions& options);

}  // namespace cairn
