// content.cc -- encodes the contents of extension objects.
#include <cairn/formats/msgpack/content.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>
#include <cairn/tree/msgpack/head.h>
#include <cairn/tree/msgpack/numpy_types.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

void append_big_endian(Bytes& out, std::uint64_t value, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0;)
    out.push_back(static_cast<std::byte>(value >> (8 * i) & 0xffU));
}

}  // namespace

MsgpackArray numpy_part(const NumpyArray& array, const MsgpackRun& run) {
  if (!valid_utf8(array.dtype_name))
    invalid_argument("the name of an array's type is not UTF-8, which msgpack requires");
  if (array.dtype_name.empty()) invalid_argument("an array's type has no name");
  if (array.dtype_name == "object")
    invalid_argument("an array of Python objects cannot be written; flax and Orbax refuse it");
  if (array.scalar && !array.shape.empty())
    invalid_argument(fmt::format("a NumPy scalar of shape {}: a scalar has no dimensions",
                                 shape_text(array.shape)));
  const auto refuse = [&] {
    invalid_argument(fmt::format("{} bytes do not hold an array of shape {} of {}",
                                 array.bytes.size(), shape_text(array.shape), array.dtype_name));
  };
  if (std::any_of(array.shape.begin(), array.shape.end(), [](auto n) { return n < 0; })) refuse();
  const auto count = static_cast<std::uint64_t>(element_count(array.shape));
  if (count == 0 ? !array.bytes.empty() : array.bytes.size() % count != 0) refuse();
  const std::uint64_t size = count == 0 ? 1 : array.bytes.size() / count;
  const auto dtype = dtype_from_name(array.dtype_name);
  const auto expected = dtype ? dtype_size(*dtype) : size_in_numpy(array.dtype_name);
  if (expected && count > 0 && size != *expected) refuse();
  return {array.dtype_name, size, array.shape, run};
}

Bytes array_front(const MsgpackArray& array) {
  Bytes front;
  const auto put = [&](ByteView bytes) { front.insert(front.end(), bytes.begin(), bytes.end()); };
  const auto head = [&](const MsgpackHead& h) { put(encode_msgpack_head(h).view()); };
  head({.type = MsgpackType::kArray, .length = 3});
  head({.type = MsgpackType::kArray, .length = array.shape.size()});
  for (const auto n : array.shape) head(msgpack_integer(n));
  head({.type = MsgpackType::kText, .length = array.dtype_name.size()});
  put(as_bytes(array.dtype_name));
  head({.type = MsgpackType::kBin, .length = array.run.size});
  return front;
}

Bytes timestamp_content(const MsgpackTimestamp& time) {
  if (time.nanoseconds > 999'999'999)
    invalid_argument(
        fmt::format("a timestamp has {} nanoseconds, more than 999999999", time.nanoseconds));
  const auto seconds = static_cast<std::uint64_t>(time.seconds);
  Bytes out;
  if (seconds >> kTimestampSecondBits != 0) {
    append_big_endian(out, time.nanoseconds, 4);
    append_big_endian(out, seconds, 8);
  } else if (const std::uint64_t both =
                 std::uint64_t{time.nanoseconds} << kTimestampSecondBits | seconds;
             both > UINT32_MAX) {
    append_big_endian(out, both, 8);
  } else {
    append_big_endian(out, both, 4);
  }
  return out;
}

}  // namespace cairn::inline v0
