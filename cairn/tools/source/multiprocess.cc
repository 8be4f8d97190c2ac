// multiprocess.cc -- encodes messages: integers are little-endian; strings and lists begin with
// their length.

#include <cairn/tools/source/multiprocess.h>

#include <cairn/base/byte_io.h>

#include <bit>

namespace cairn::inline v0 {
namespace {

void put_text(ByteWriter& out, std::string_view text) { out.u64(text.size()).text(text); }
std::string take_text(ByteReader& in) { return std::string(in.text(in.u64())); }

template <class T, class Put>
void put_list(ByteWriter& out, const std::vector<T>& items, Put put) {
  out.u64(items.size());
  for (const T& item : items) put(out, item);
}
// Every item takes at least one byte, so a hostile length fails at the end of the message, and
// memory stays proportional to the message.
template <class T, class Take>
std::vector<T> take_list(ByteReader& in, Take take) {
  std::vector<T> items;
  for (std::uint64_t left = in.u64(); left > 0; --left) items.push_back(take(in));
  return items;
}

void put_finding(ByteWriter& out, const Finding& finding) {
  out.u8(static_cast<std::uint8_t>(finding.severity)).u64(finding.offset);
  put_text(out, finding.tensor);
  put_text(out, finding.file);
  put_text(out, finding.message);
}
Finding take_finding(ByteReader& in) {
  Finding finding;
  // An unknown severity counts as damage: it must never pass as good.
  const std::uint8_t severity = in.u8();
  finding.severity = severity <= static_cast<std::uint8_t>(Severity::kDamage)
                         ? static_cast<Severity>(severity)
                         : Severity::kDamage;
  finding.offset = in.u64();
  finding.tensor = take_text(in);
  finding.file = take_text(in);
  finding.message = take_text(in);
  return finding;
}

void put_array(ByteWriter& out, const CheckedArray& array) {
  out.u64(array.tensor)
      .u64(array.chunks)
      .u64(array.bytes)
      .u8(array.unprotected ? 1 : 0)
      .u32(array.crc)
      .u64(array.crc_bytes);
  put_list(out, array.findings, put_finding);
}
CheckedArray take_array(ByteReader& in) {
  CheckedArray array;
  array.tensor = in.u64();
  array.chunks = in.u64();
  array.bytes = in.u64();
  array.unprotected = in.u8() != 0;
  array.crc = in.u32();
  array.crc_bytes = in.u64();
  array.findings = take_list<Finding>(in, take_finding);
  return array;
}

void put_number(ByteWriter& out, std::optional<double> number) {
  out.u8(number ? 1 : 0).u64(std::bit_cast<std::uint64_t>(number.value_or(0)));
}
std::optional<double> take_number(ByteReader& in) {
  const bool there = in.u8() != 0;
  const auto number = std::bit_cast<double>(in.u64());
  return there ? std::optional(number) : std::nullopt;
}

void put_double(ByteWriter& out, double number) { out.u64(std::bit_cast<std::uint64_t>(number)); }

void put_sums(ByteWriter& out, const ValueSums& sums) {
  out.u64(sums.pairs);
  put_double(out, sums.largest_b);
  put_double(out, sums.largest_error);
  for (const LongSum* sum : {&sums.errors, &sums.squares_a, &sums.squares_b, &sums.products}) {
    put_double(out, sum->high);
    put_double(out, sum->low);
  }
}
ValueSums take_sums(ByteReader& in) {
  ValueSums sums;
  sums.pairs = in.u64();
  for (double* number : {&sums.largest_b, &sums.largest_error, &sums.errors.high, &sums.errors.low,
                         &sums.squares_a.high, &sums.squares_a.low, &sums.squares_b.high,
                         &sums.squares_b.low, &sums.products.high, &sums.products.low})
    *number = std::bit_cast<double>(in.u64());
  return sums;
}

void put_values(ByteWriter& out, const ValueDiff& v) {
  out.u64(v.different)
      .u64(v.bits_only)
      .u64(v.within)
      .u64(v.nans_a)
      .u64(v.nans_b)
      .u64(v.infs_a)
      .u64(v.infs_b);
  out.u64(v.nan_mismatches).u64(v.inf_mismatches).u8(v.first ? 1 : 0).u64(v.first.value_or(0));
  put_number(out, v.max_abs_error);
  put_number(out, v.max_rel_error);
}
ValueDiff take_values(ByteReader& in) {
  ValueDiff v;
  for (std::uint64_t* count : {&v.different, &v.bits_only, &v.within, &v.nans_a, &v.nans_b,
                               &v.infs_a, &v.infs_b, &v.nan_mismatches, &v.inf_mismatches})
    *count = in.u64();
  const bool there = in.u8() != 0;
  const std::uint64_t first = in.u64();
  if (there) v.first = first;
  v.max_abs_error = take_number(in);
  v.max_rel_error = take_number(in);
  return v;
}

}  // namespace

Bytes encode_verify_part(const VerifyPart& part) {
  ByteWriter out;
  out.u64(part.around.tensors).u64(part.around.chunks).u64(part.around.bytes);
  put_list(out, part.around.findings, put_finding);
  put_list(out, part.around.unprotected,
           [](ByteWriter& to, const std::string& name) { put_text(to, name); });
  put_list(out, part.arrays, put_array);
  return std::move(out).take();
}

VerifyPart decode_verify_part(ByteView encoded) {
  ByteReader in(encoded);
  VerifyPart part;
  part.around.tensors = in.u64();
  part.around.chunks = in.u64();
  part.around.bytes = in.u64();
  part.around.findings = take_list<Finding>(in, take_finding);
  part.around.unprotected = take_list<std::string>(in, take_text);
  part.arrays = take_list<CheckedArray>(in, take_array);
  in.finish();
  return part;
}

Bytes encode_compared(const std::vector<ComparedLeaf>& leaves) {
  ByteWriter out;
  put_list(out, leaves, [](ByteWriter& to, const ComparedLeaf& leaf) {
    to.u64(leaf.leaf);
    put_text(to, leaf.error_a);
    put_text(to, leaf.error_b);
    to.u8(leaf.values ? 1 : 0);
    if (leaf.values) put_values(to, *leaf.values);
    put_sums(to, leaf.sums);
  });
  return std::move(out).take();
}

std::vector<ComparedLeaf> decode_compared(ByteView encoded) {
  ByteReader in(encoded);
  auto leaves = take_list<ComparedLeaf>(in, [](ByteReader& from) {
    ComparedLeaf leaf;
    leaf.leaf = from.u64();
    leaf.error_a = take_text(from);
    leaf.error_b = take_text(from);
    if (from.u8() != 0) leaf.values = take_values(from);
    leaf.sums = take_sums(from);
    return leaf;
  });
  in.finish();
  return leaves;
}

}  // namespace cairn::inline v0
