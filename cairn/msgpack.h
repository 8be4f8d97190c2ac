// msgpack.h -- msgpack as flax and Orbax write it: trees to bytes and back, and files of it.
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

namespace cairn {

// A flax / Orbax msgpack file as a checkpoint: arrays are read lazily from their place in the file.
std::unique_ptr<Checkpoint> open_msgpack(const std::string& path, const OpenOptions& options = {});

// Whose bytes to write; both read each other's, except for tuples, which flax hands over as raw
// extension objects.
enum class MsgpackDialect : std::uint8_t {
  // flax.serialization.msgpack_serialize: lists are lists; tuples and named tuples are refused
  kFlax,
  // flax.serialization.to_bytes: lists and tuples become dicts "0", "1", ..., named tuples dicts of
  // their fields
  kFlaxState,
  kOrbax,  // Orbax's msgpack_utils: lists are lists, tuples and named tuples are tuples
};
struct MsgpackOptions {
  MsgpackDialect dialect = MsgpackDialect::kFlax;
  // kSorted is what both packages' msgpack_serialize does; with in_place=True, and in to_bytes,
  // they keep kBuilt.
  DictOrder order = DictOrder::kSorted;
  // An array of more bytes is cut into flat pieces of at most this many where it is the root or a
  // value of dicts alone.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 30U;
};
// The very bytes that the package would write. Throws invalid_argument, naming the leaf, for what
// it refuses, too: placeholders and other leaves without a value, texts that are not UTF-8, an
// object of more than 2^32 - 1 bytes; and for elements of kOpaque types, more than 1000 levels, and
// custom leaves.
Bytes msgpack_serialize(const Tree& tree, const MsgpackOptions& options = {});
// The reverse, whoever wrote them: tuples, NumPy scalars, complex numbers and bytes come back as
// such; dicts in the order of the bytes, integer keys as their decimals. Arrays share `owner`,
// which keeps `bytes` alive, where there is one and their place is aligned, and own a copy
// elsewhere. Throws data_loss for damaged bytes, unimplemented for unknown extension types.
Tree msgpack_restore(ByteView bytes, const std::shared_ptr<const void>& owner = nullptr);

// In a tree to be written: a leaf whose values are fetched when they are due
// (CustomLeaf::of(SourceLeaf{...})).
struct SourceLeaf {
  enum class As : std::uint8_t { kArray, kBytes };
  std::size_t index = 0;  // of the sources
  As as = As::kArray;     // kBytes: a bytes object of the source's bytes
};
struct MsgpackWriteOptions {
  MsgpackOptions encoding;
  // an existing target is refused otherwise
  IfExists if_exists = IfExists::kFail;
  std::uint64_t memory = std::uint64_t{1} << 30U;  // buffer bytes in flight, of fetched arrays
  ProgressFn progress;
  // as in SafetensorsWriteOptions; what is in memory is written by one
  MultiprocessingOptions multiprocessing;
};
// The same bytes as a file, which appears whole or not at all. Arrays go from their memory to the
// file.
void write_msgpack(const std::string& path, const Tree& tree,
                   const MsgpackWriteOptions& options = {});
// With SourceLeafs in the tree: values are fetched a buffer at a time, in the order of the file.
void write_msgpack(const std::string& path, const Tree& tree, std::span<const TensorSource> sources,
                   const FetchFn& fetch, const MsgpackWriteOptions& options);

}  // namespace cairn
