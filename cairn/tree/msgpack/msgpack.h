// msgpack.h -- reads the msgpack of flax and of Orbax's legacy aggregate file: bytes to the places
// of the values. (formats/msgpack restores the values, and writes.)
//
// The file is one msgpack object of maps (keys: strings; integer keys can be read as decimals),
// arrays, nil, booleans, integers, floats, strings, bins, and extension types:
//   code 1: ndarray          msgpack array [shape as array of integers, dtype name,
//                                           C-order little-endian bytes]
//   code 2: native complex   msgpack array [real, imaginary]
//   code 3: NumPy scalar     as 1, shape []
//   code 4: tuple            msgpack array of the elements (Orbax only)
//   code -1: timestamp       msgpack's own
// An array of more than 2^30 bytes that is the root, or a value of nested maps, is cut into flat
// pieces:
//   {"__msgpack_chunked_array__": true, "shape": {"0": n0, ...}, "chunks": {"0": ndarray, ...}}
// Other members of such a map are ignored.
#pragma once

#include <cairn/tree.h>
#include <cairn/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

enum class MsgpackKind : std::uint8_t {
  kArray,
  kNumpyScalar,
  kScalar,
  kComplex,
  kString,
  kBytes,
  kTimestamp,
  kNone,
  kEmptyDict,
  kEmptyList,
  kEmptyTuple
};

// TensorInfo::kind for such a leaf: Orbax's typestr of the saved value. Orbax has no distinct
// typestr for NumPy scalars, Python's complex numbers, bins and timestamps: these are "np.generic",
// "complex", "bytes" and "timestamp".
std::string_view kind_name(MsgpackKind kind);

// A leaf or an empty container. Its bytes stay in the input: `pieces` are consecutive views of it.
struct MsgpackLeaf {
  KeyPath path;
  MsgpackKind kind = MsgpackKind::kNone;
  DType dtype = DType::kOpaque;  // of arrays and scalars; kUint8 for bins
  // "float32"; as stored if dtype is kOpaque; "" if there are no elements
  std::string dtype_name;
  std::size_t element_size = 0;
  Shape shape;
  std::vector<ByteView> pieces;  // kArray, kNumpyScalar, kString, kBytes
  // kScalar, kComplex: little-endian, of type `dtype`; kTimestamp: seconds and nanoseconds, as an
  // array of two int64
  std::array<std::byte, 16> value{};
  [[nodiscard]] std::uint64_t nbytes() const;
};

// How the parser gets at the input.
struct MsgpackInput {
  // Called with bytes of the input before they are parsed; never with the elements of arrays.
  // Empty: all bytes are already there.
  std::function<void(ByteView)> load = {};
  // The bytes of the input that are really stored. The memory limit for nodes follows from this.
  // nullopt: all of them.
  std::optional<std::uint64_t> stored = {};
  // Whether keys may be integers, as for flax. Orbax refuses them.
  bool integer_keys = true;
  // If set, damage is no error. A leaf whose own content is damaged is left out. Where the bytes
  // end or their structure is damaged, parsing stops, and the result has what came before. Called
  // with the path of each leaf or container that is lost, and with the reason.
  std::function<void(const KeyPath&, const std::string&)> lost = {};
};

// Parses the bytes in one pass. Containers, numbers and None become nodes; dicts keep the order of
// the bytes. Arrays, NumPy scalars, strings and bins are only located: each becomes a CustomLeaf
// that holds a MsgpackLeaf without a path. Throws data_loss unless the input is exactly one
// well-formed object: names are unique, strings are UTF-8, arrays have the bytes that their shape
// requires. Throws unimplemented for unknown extension types, and if the nodes take more memory
// than Cairn allows for an input of this size.
Tree parse_msgpack(ByteView bytes, const MsgpackInput& input = {});

// Passes all leaves and empty containers that parse_msgpack made of `input_bytes` bytes to `add`,
// in their order. Throws unimplemented, before the first call, if leaves and paths together take
// more memory than Cairn allows for an input of this size.
void list_msgpack_leaves(const Tree& parsed, std::uint64_t input_bytes,
                         const std::function<void(MsgpackLeaf)>& add);
// The message for input whose nodes or leaves would take more than `bytes` of memory.
std::string msgpack_limit_text(std::uint64_t bytes);
// Parses the bytes and lists their leaves.
std::vector<MsgpackLeaf> decode_msgpack(ByteView bytes, const MsgpackInput& input = {});

}  // namespace cairn::inline v0
