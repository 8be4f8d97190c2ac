// msgpack.h -- msgpack as flax and Orbax write it: encodes trees to bytes and decodes them, and
// reads and writes such files.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Opens a flax or Orbax msgpack file as a checkpoint. Arrays are read lazily from their place in
// the file. `path` is a path or a URL. Throws as cairn::open.
std::unique_ptr<Checkpoint> open_msgpack(const std::string& path, const OpenOptions& options = {});

// Which package's encoding to write. Each package reads the other's files, but flax returns tuples
// as raw extension objects.
enum class MsgpackDialect : std::uint8_t {
  // flax.serialization.msgpack_serialize: lists stay lists; tuples and named tuples are refused.
  kFlax,
  // flax.serialization.to_bytes: lists and tuples become dicts with keys "0", "1", ...; named
  // tuples become dicts of their fields.
  kFlaxState,
  // Orbax's msgpack_utils: lists stay lists; tuples and named tuples become tuples.
  kOrbax,
};
// Options of msgpack_serialize.
struct MsgpackOptions {
  MsgpackDialect dialect = MsgpackDialect::kFlax;  // whose encoding to write
  // kSorted matches both packages' msgpack_serialize. With in_place=True, and in to_bytes, they use
  // kBuilt.
  DictOrder order = DictOrder::kSorted;
  // An array of more bytes is split into flat pieces of at most this size, if the array is the root
  // or all nodes above it are dicts.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 30U;
};

// A leaf that only msgpack has: a point in time (msgpack.Timestamp in Python).
struct MsgpackTimestamp {
  std::int64_t seconds = 0;       // since 1970-01-01 00:00 UTC; may be negative
  std::uint32_t nanoseconds = 0;  // 0 to 999999999, added to the seconds
  bool operator==(const MsgpackTimestamp&) const = default;
};
// A leaf that is an array or scalar of a NumPy type for which Cairn has no DType, such as
// "datetime64[ns]" and "float128".
struct NumpyArray {
  std::string dtype_name;  // numpy.dtype(...).name
  Shape shape;
  Bytes bytes;          // the elements in C order, little-endian
  bool scalar = false;  // a NumPy scalar; the shape must be empty
  bool operator==(const NumpyArray&) const = default;
};

// Encodes a tree; the output is byte-identical to the package's. Custom leaves may be
// MsgpackTimestamp, NumpyArray and ShardedArray, which is gathered in host memory and written as an
// array. Throws invalid_argument, naming the leaf, for everything that the package refuses
// (placeholders and other leaves without a value, strings that are not UTF-8, typed PRNG keys,
// arrays of objects, an object of more than 2^32 - 1 bytes), and for elements of kOpaque type, more
// than 1000 levels and other custom leaves. Throws failed_precondition for a ShardedArray of which
// this process lacks a part.
Bytes msgpack_serialize(const Tree& tree, const MsgpackOptions& options = {});
// Decodes msgpack bytes as the msgpack_restore of a package does. Tuples, NumPy scalars, complex
// numbers and bytes are returned as such; timestamps become MsgpackTimestamp, arrays of dates and
// of long doubles NumpyArray; dicts keep the order of the bytes. Orbax refuses integer keys; with
// flax's dialects they become decimal strings. Where `owner` is given and an array is aligned in
// `bytes`, the array shares `owner`, which must keep `bytes` alive. Other arrays are copied.
//
// Throws data_loss for damaged bytes and keys that are refused; unimplemented for unknown extension
// types, and for the arrays that both packages write but cannot restore (of strings, bytes and
// structs).
Tree msgpack_restore(ByteView bytes, const std::shared_ptr<const void>& owner = nullptr,
                     MsgpackDialect dialect = MsgpackDialect::kFlax);

// Options of write_msgpack.
struct MsgpackWriteOptions {
  MsgpackOptions encoding = {};  // how the tree is encoded
  // What to do if the target exists.
  IfExists if_exists = IfExists::kFail;
  StoreOptions store = {};  // how to reach the store, if the path is a URL
  Resources resources = {};
  ProgressFn progress = {};
  // As in SafetensorsWriteOptions. One process writes the values that are in memory.
  MultiprocessingOptions multiprocessing = {};
};
// Writes the bytes of msgpack_serialize to a file, which appears complete or not at all. Arrays are
// written from their own memory. Throws as msgpack_serialize; already_exists as if_exists says; io.
void write_msgpack(const std::string& path, const Tree& tree,
                   const MsgpackWriteOptions& options = {});
// As above, for a tree with SourceLeaf leaves. Values are fetched one buffer at a time, in the
// order of the file. Throws also the errors of `fetch`.
void write_msgpack(const std::string& path, const Tree& tree, std::span<const TensorSource> sources,
                   const FetchFn& fetch, const MsgpackWriteOptions& options);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
