// consistency.cc -- compares the descriptions of the processes' arrays, then the pieces they hold.
//
//   message: u64 digest of the descriptions; counts of all arrays
//   counts:  u64 count, u64 sum of the pieces given; u64 count, u64 sum of those needed
#include <cairn/orbax/save/consistency.h>

#include <cairn/base/errors.h>
#include <cairn/base/hash.h>

#include <fmt/format.h>

#include <utility>

namespace cairn::inline v0::orbax {
namespace {

constexpr const char* kDisagreement = "save: disagreement";

}  // namespace

void SaveConsistencyCheck::Pieces::add(std::uint64_t array, std::span<const std::int64_t> origin) {
  // Sums of hashes distinguish sets only if every bit of each hash depends on all of its input.
  std::uint64_t hash = array;
  for (const std::int64_t at : origin) hash = splitmix64(hash ^ static_cast<std::uint64_t>(at));
  ++count;
  sum += splitmix64(hash);
}

void SaveConsistencyCheck::Pieces::add(const Pieces& other) {
  count += other.count;
  sum += other.sum;
}

SaveConsistencyCheck::Pieces SaveConsistencyCheck::all_pieces(std::uint64_t array,
                                                              const Shape& shape,
                                                              const Shape& write_shape) {
  Pieces all;
  for (std::vector<std::int64_t> origin(shape.size(), 0);;) {
    all.add(array, origin);
    std::size_t d = shape.size();
    while (d > 0 && (origin[d - 1] += write_shape[d - 1]) >= shape[d - 1]) origin[--d] = 0;
    if (d == 0) return all;
  }
}

void SaveConsistencyCheck::add(const std::string& name, std::string description, const Shape& shape,
                               const Shape& write_shape, std::span<const StorePart> parts,
                               bool count_pieces) {
  descriptions_.add(name, std::move(description));
  Entry& entry = entries_.emplace_back(Entry{name, shape_text(write_shape), {}});
  const std::uint64_t array = fnv1a(as_bytes(name));
  for (const StorePart& part : parts) entry.counts.given.add(array, part.box.origin);
  if (count_pieces) entry.counts.needed = all_pieces(array, shape, write_shape);
}

void SaveConsistencyCheck::put(ByteWriter& out, const Counts& counts) {
  for (const Pieces& pieces : {counts.given, counts.needed}) out.u64(pieces.count).u64(pieces.sum);
}

SaveConsistencyCheck::Counts SaveConsistencyCheck::take_total(std::span<ByteReader> processes,
                                                              std::size_t primary) {
  Counts total;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    ByteReader& in = processes[p];
    total.given.add({in.u64(), in.u64()});
    const Pieces needed{in.u64(), in.u64()};
    if (p == primary) total.needed = needed;
  }
  return total;
}

Bytes SaveConsistencyCheck::message() const {
  Counts all;
  for (const Entry& entry : entries_) {
    all.given.add(entry.counts.given);
    all.needed.add(entry.counts.needed);
  }
  ByteWriter out;
  out.u64(descriptions_.digest());
  put(out, all);
  return std::move(out).take();
}

void SaveConsistencyCheck::check(std::span<const Bytes> messages,
                                 const distributed::ProcessGroup& group) const {
  descriptions_.check(messages, group, kDisagreement);
  std::vector<ByteReader> totals(messages.begin(), messages.end());
  for (ByteReader& in : totals) in.u64();
  if (const Counts all = take_total(totals, group.primary()); all.given == all.needed) return;
  const auto counts = group.gather(kDisagreement, distributed::StepKind::kControl, [&] {
    ByteWriter out;
    for (const Entry& entry : entries_) put(out, entry.counts);
    return std::move(out).take();
  });
  std::vector<ByteReader> readers(counts.begin(), counts.end());
  for (const Entry& entry : entries_) {
    const Counts all = take_total(readers, group.primary());
    if (all.given == all.needed) continue;
    invalid_argument(fmt::format(
        "{}: all processes together hold {} pieces of it, expected {} pieces of {}, each held "
        "once; every device of its sharding must belong to one process, and that process must give "
        "its shard",
        entry.name, all.given.count, all.needed.count, entry.write_shape));
  }
}

}  // namespace cairn::inline v0::orbax
