// pickle_writer.cc -- Source of the rules: Python's pickletools, and the order in which CPython's
// pickler numbers the values.
#include <cairn/formats/pytorch/pickle/pickle_writer.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace cairn::inline v0::pickle {
namespace {

constexpr std::uint8_t kProtocol = 2;
// CPython's pickler adds so many items to a container at once.
constexpr std::size_t kBatch = 1000;

}  // namespace

PickleWriter::PickleWriter() {
  op(Opcode::kProto);
  out_.u8(kProtocol);
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0) return integer(static_cast<std::uint64_t>(value));
  if (value >= std::numeric_limits<std::int32_t>::min()) {
    op(Opcode::kBinInt);
    out_.i32(static_cast<std::int32_t>(value));
    return;
  }
  // The shortest form in which the highest bit is the sign.
  const auto bits = static_cast<unsigned>(65 - std::countl_one(static_cast<std::uint64_t>(value)));
  const unsigned count = (bits + 7) / 8;
  op(Opcode::kLong1);
  out_.u8(static_cast<std::uint8_t>(count));
  for (unsigned i = 0; i < count; ++i) out_.u8(static_cast<std::uint8_t>(value >> (8 * i)));
}

void PickleWriter::integer(std::uint64_t value) {
  if (value <= 0xff) {
    op(Opcode::kBinInt1);
    out_.u8(static_cast<std::uint8_t>(value));
  } else if (value <= 0xffff) {
    op(Opcode::kBinInt2);
    out_.u16(static_cast<std::uint16_t>(value));
  } else if (value <= 0x7fffffff) {
    op(Opcode::kBinInt);
    out_.u32(static_cast<std::uint32_t>(value));
  } else {
    // One bit more than the value has: a clear sign.
    const auto count = static_cast<unsigned>(std::bit_width(value) / 8 + 1);
    op(Opcode::kLong1);
    out_.u8(static_cast<std::uint8_t>(count));
    for (unsigned i = 0; i < count; ++i)
      out_.u8(i < 8 ? static_cast<std::uint8_t>(value >> (8 * i)) : std::uint8_t{0});
  }
}

void PickleWriter::real(double value) {
  op(Opcode::kBinFloat);
  out_.u64(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)));
}

void PickleWriter::text(std::string_view utf8, Numbers& known) {
  if (const auto found = known.find(utf8); found != known.end()) return get(found->second);
  if (utf8.size() > std::numeric_limits<std::uint32_t>::max())
    invalid_argument("a text of " + std::to_string(utf8.size()) +
                     " bytes: PyTorch reads at most 4294967295");
  op(Opcode::kBinUnicode);
  out_.u32(static_cast<std::uint32_t>(utf8.size())).text(utf8);
  known.emplace(utf8, put());
}

void PickleWriter::bytes(ByteView value) {
  global("_codecs", "encode");
  std::string latin1;
  for (const std::byte byte : value) append_utf8(latin1, std::to_integer<std::uint32_t>(byte));
  text(latin1);
  text("latin1");
  close_tuple(2);
  call();
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  const std::string both = std::string(module) + "\n" + std::string(name) + "\n";
  if (const auto known = globals_.find(both); known != globals_.end()) return get(known->second);
  op(Opcode::kGlobal);
  out_.text(both);
  globals_.emplace(both, put());
}

void PickleWriter::close_tuple(std::size_t items) {
  switch (items) {
    case 0:
      return empty_tuple();
    case 1:
      op(Opcode::kTuple1);
      break;
    case 2:
      op(Opcode::kTuple2);
      break;
    case 3:
      op(Opcode::kTuple3);
      break;
    default:
      op(Opcode::kTuple);
  }
  put();
}

void PickleWriter::list(std::size_t count, const std::function<void(std::size_t)>& item) {
  op(Opcode::kEmptyList);
  put();
  fill(count, item, Opcode::kAppend, Opcode::kAppends);
}

void PickleWriter::dict(std::size_t count, const std::function<void(std::size_t)>& entry) {
  op(Opcode::kEmptyDict);
  put();
  fill(count, entry, Opcode::kSetItem, Opcode::kSetItems);
}

void PickleWriter::call() {
  op(Opcode::kReduce);
  put();
}

void PickleWriter::make_object() {
  op(Opcode::kNewObj);
  put();
}

Bytes PickleWriter::take() && {
  op(Opcode::kStop);
  return std::move(out_).take();
}

std::uint32_t PickleWriter::put() {
  const std::uint32_t number = next_++;
  if (number <= 0xff) {
    op(Opcode::kBinPut);
    out_.u8(static_cast<std::uint8_t>(number));
  } else {
    op(Opcode::kLongBinPut);
    out_.u32(number);
  }
  return number;
}

void PickleWriter::get(std::uint32_t number) {
  if (number <= 0xff) {
    op(Opcode::kBinGet);
    out_.u8(static_cast<std::uint8_t>(number));
  } else {
    op(Opcode::kLongBinGet);
    out_.u32(number);
  }
}

void PickleWriter::fill(std::size_t count, const std::function<void(std::size_t)>& item, Opcode one,
                        Opcode many) {
  if (count == 1) {
    item(0);
    return op(one);
  }
  for (std::size_t begin = 0; begin < count; begin += kBatch) {
    op(Opcode::kMark);
    for (std::size_t i = begin; i < std::min(begin + kBatch, count); ++i) item(i);
    op(many);
  }
}

}  // namespace cairn::inline v0::pickle
