// consistency.cc -- compares hash summaries of the processes' arrays, and the full lists if the
// summaries differ.
//
//   summary: u64 hash of what is meant; u64 count, u64 sum of the pieces given, u64 count, u64 sum
//   of those that are needed
//   entries: for each array  u32 size, name; u32 size, description; u32 size, "(2, 4)"; the same
//                            four numbers
#include <cairn/orbax/save/consistency.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/hash.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

ByteWriter& put_text(ByteWriter& out, std::string_view text) {
  return out.u32(static_cast<std::uint32_t>(text.size())).text(text);
}
std::string take_text(ByteReader& in) { return std::string(in.text(in.u32())); }

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
                               const Shape& write_shape, std::span<const handlers::ArrayPart> parts,
                               bool count_pieces) {
  Entry entry{.name = name,
              .description = std::move(description),
              .pieces = shape_text(write_shape),
              .given = {},
              .needed = {}};
  const std::uint64_t array = fnv1a(as_bytes(name));
  for (const handlers::ArrayPart& part : parts) entry.given.add(array, part.box.origin);
  if (count_pieces) entry.needed = all_pieces(array, shape, write_shape);
  entries_.push_back(std::move(entry));
}

Bytes SaveConsistencyCheck::summary() const {
  std::uint64_t meaning = entries_.size();
  Pieces given, needed;
  for (const Entry& entry : entries_) {
    meaning = fnv1a(as_bytes(entry.description), fnv1a(as_bytes(entry.name), splitmix64(meaning)));
    given.add(entry.given);
    needed.add(entry.needed);
  }
  ByteWriter out;
  out.u64(meaning).u64(given.count).u64(given.sum).u64(needed.count).u64(needed.sum);
  return std::move(out).take();
}

SaveConsistencyCheck::Summary SaveConsistencyCheck::parse_summary(ByteView bytes) {
  ByteReader in(bytes);
  Summary out{.meaning = in.u64(), .given = {in.u64(), in.u64()}, .needed = {in.u64(), in.u64()}};
  in.finish();
  return out;
}

Bytes SaveConsistencyCheck::entries() const {
  ByteWriter out;
  for (const Entry& entry : entries_) {
    put_text(put_text(put_text(out, entry.name), entry.description), entry.pieces);
    out.u64(entry.given.count).u64(entry.given.sum).u64(entry.needed.count).u64(entry.needed.sum);
  }
  return std::move(out).take();
}

std::vector<SaveConsistencyCheck::Entry> SaveConsistencyCheck::parse_entries(ByteView bytes) {
  std::vector<Entry> out;
  for (ByteReader in(bytes); !in.at_end();) {
    Entry& entry = out.emplace_back();
    entry.name = take_text(in);
    entry.description = take_text(in);
    entry.pieces = take_text(in);
    entry.given = {in.u64(), in.u64()};
    entry.needed = {in.u64(), in.u64()};
  }
  return out;
}

void SaveConsistencyCheck::check(std::span<const Bytes> summaries,
                                 const distributed::ProcessGroup& group) const {
  const Summary primary = parse_summary(summaries[group.primary()]);
  Pieces given;
  bool same = true;
  for (const Bytes& bytes : summaries) {
    const Summary summary = parse_summary(bytes);
    same = same && summary.meaning == primary.meaning;
    given.add(summary.given);
  }
  if (same && given == primary.needed) return;
  explain(group.gather("save: disagreement", distributed::StepKind::kControl,
                       [&] { return entries(); }),
          group.primary());
}

void SaveConsistencyCheck::compare(const std::vector<Entry>& primary,
                                   const std::vector<Entry>& other, const std::string& who,
                                   const std::string& primary_name) {
  const auto refuse = [](const std::string& what) { throw Error(Code::kInvalidArgument, what); };
  std::unordered_map<std::string_view, const Entry*> left;
  for (const Entry& entry : primary) left.emplace(entry.name, &entry);
  for (const Entry& entry : other) {
    const auto it = left.find(entry.name);
    if (it == left.end())
      refuse(entry.name + ": is saved by " + who + " and not by " + primary_name);
    if (it->second->description != entry.description)
      refuse(entry.name + ": " + who + " saves it in " + entry.description + ", " + primary_name +
             " in " + it->second->description);
    left.erase(it);
  }
  for (const Entry& entry : primary)
    if (left.contains(entry.name))
      refuse(entry.name + ": is saved by " + primary_name + " and not by " + who);
}

void SaveConsistencyCheck::explain(std::span<const Bytes> said, std::size_t primary) {
  const auto name = [](std::size_t process) { return "process " + std::to_string(process); };
  const std::vector<Entry> meant = parse_entries(said[primary]);
  std::vector<Pieces> given(meant.size());
  for (std::size_t p = 0; p < said.size(); ++p) {
    const std::vector<Entry> other = parse_entries(said[p]);
    compare(meant, other, name(p), name(primary));
    for (std::size_t i = 0; i < other.size() && i < given.size(); ++i) given[i].add(other[i].given);
  }
  for (std::size_t i = 0; i < meant.size(); ++i) {
    if (given[i] == meant[i].needed) continue;
    const std::string pieces =
        std::to_string(meant[i].needed.count) + " pieces of " + meant[i].pieces;
    throw Error(Code::kInvalidArgument,
                meant[i].name + ": the processes hold " + std::to_string(given[i].count) +
                    " pieces of it, but it consists of " + pieces +
                    ", each to be held once: every device of its sharding must be one process's, "
                    "and that process must give its shard");
  }
  throw Error(Code::kInvalidArgument, "the processes save the same arrays in different orders");
}

}  // namespace cairn::inline v0::orbax
