// msgpack.h -- the msgpack of flax and of Orbax's legacy aggregate: bytes to the leaves of a pytree, read only.
//   One msgpack object: maps (keys: texts; integers read as their decimals), arrays, nil, booleans, integers, floats, texts, bins, and
//   extension types:
//   code 1: ndarray          msgpack array [shape as array of integers, dtype name, C-order little-endian bytes]
//   code 2: native complex   msgpack array [real, imaginary]
//   code 3: NumPy scalar     as 1, shape []
//   code 4: tuple            msgpack array of the elements (Orbax only)
//   An array of more than 2^30 bytes that is the root or a value of nested maps is cut into flat pieces:
//   {"__msgpack_chunked_array__": true, "shape": {"0": n0, ...}, "chunks": {"0": ndarray, ...}}
#pragma once

#include <cairn/tree.h>
#include <cairn/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

enum class MsgpackKind : std::uint8_t {
  kArray,
  kNumpyScalar,
  kScalar,
  kComplex,
  kString,
  kBytes,
  kNone,
  kEmptyDict,
  kEmptyList,
  kEmptyTuple
};

// What TensorInfo::kind says of such a leaf: Orbax's typestr for what was saved. For bins it has none, since arrays alone are
// stored outside the msgpack file: they are "bytes", which is what Orbax and flax restore.
std::string_view kind_name(MsgpackKind kind);

// A leaf or an empty container. Its bytes stay where they are: `pieces` point into the input, one behind the other.
struct MsgpackLeaf {
  KeyPath path;
  MsgpackKind kind = MsgpackKind::kNone;
  DType dtype = DType::kOpaque;  // of arrays and scalars; kUint8 for bins
  std::string dtype_name;        // "float32"; as stored where dtype is kOpaque; "" if there are no elements
  std::size_t element_size = 0;
  Shape shape;
  std::vector<ByteView> pieces;       // kArray, kNumpyScalar, kString, kBytes
  std::array<std::byte, 16> value{};  // kScalar, kComplex: little-endian, of dtype
  [[nodiscard]] std::uint64_t nbytes() const;
};

// All leaves, in the order of the bytes. Throws data_loss for anything that is not exactly one well-formed object (names appear once,
// texts are UTF-8, arrays have the bytes their shape asks for), unimplemented for unknown extension types.
std::vector<MsgpackLeaf> decode_msgpack(ByteView bytes);

// The same as a tree. Arrays share `owner`, which keeps `bytes` alive, where their alignment permits and else own a copy. Complex
// numbers and NumPy scalars become arrays of rank 0, bins arrays of uint8, tuples lists.
Tree msgpack_tree(ByteView bytes, const std::shared_ptr<const void>& owner);

}  // namespace cairn
