// consistency.cc -- one digest of the values that must be equal. When the digests differ, two
// processes look for the first value that differs, in two gatherings:
//
//   first  u64 for each value: its digest
//   then   u32 size, name; u32 size, value: the first one whose digests differ;
//          nothing if a process has fewer values
#include <cairn/distributed/consistency.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/base/hash.h>

#include <algorithm>

namespace cairn::inline v0::distributed {
namespace {

std::string process_text(std::size_t process) { return "process " + std::to_string(process); }

// A process and its message in the second gathering.
struct Side {
  std::string who;
  ByteReader message;
  std::string take() { return std::string(message.text(message.u32())); }
};

// Throws invalid_argument, which says how the two processes differ.
void throw_difference(Side first, Side other, const std::string& verb) {
  if (other.message.at_end() && !first.message.at_end())
    invalid_argument(first.take() + ": " + first.who + " has it, " + other.who + " does not");
  if (first.message.at_end() && !other.message.at_end())
    invalid_argument(other.take() + ": " + other.who + " has it, " + first.who + " does not");
  const std::string name = first.take(), other_name = other.take();
  if (name != other_name)
    invalid_argument(name + ": " + other.who + " has " + other_name + " instead");
  invalid_argument(name + ": " + other.who + " " + verb + " " + other.take() + ", " + first.who +
                   " " + verb + " " + first.take());
}

// Returns the index of the first number that differs.
std::size_t first_difference(const Bytes& first, const Bytes& other) {
  const auto [at, ignored] = std::mismatch(first.begin(), first.end(), other.begin(), other.end());
  return static_cast<std::size_t>(at - first.begin()) / sizeof(std::uint64_t);
}

}  // namespace

std::uint64_t ConsistencyCheck::digest_of(const NamedValue& value, std::uint64_t before) {
  return fnv1a(as_bytes(value.second),
               splitmix64(fnv1a(as_bytes(value.first), splitmix64(before))));
}

std::uint64_t ConsistencyCheck::digest() const {
  std::uint64_t digest = values_.size();
  for (const NamedValue& value : values_) digest = digest_of(value, digest);
  return digest;
}

Bytes ConsistencyCheck::message() const { return std::move(ByteWriter().u64(digest())).take(); }

void ConsistencyCheck::check(std::span<const Bytes> messages, const ProcessGroup& group,
                             std::string_view step, std::size_t at) const {
  const auto digest_in = [&](const Bytes& message) {
    return ByteReader(ByteView(message).subspan(at)).u64();
  };
  const std::size_t first = group.primary();
  const std::uint64_t expected = digest_in(messages[first]);
  const auto odd = std::find_if(messages.begin(), messages.end(), [&](const Bytes& message) {
    return digest_in(message) != expected;
  });
  if (odd == messages.end()) return;
  // The values of all processes could take too much memory, so only two processes send theirs.
  const auto other = static_cast<std::size_t>(odd - messages.begin());
  const bool is_asked = group.index() == first || group.index() == other;
  const auto digests = group.gather(step, StepKind::kControl, [&] {
    ByteWriter out;
    for (std::size_t i = 0; is_asked && i < values_.size(); ++i) out.u64(digest_of(values_[i], 0));
    return std::move(out).take();
  });
  const std::size_t place = first_difference(digests[first], digests[other]);
  const auto values = group.gather(step, StepKind::kControl, [&] {
    ByteWriter out;
    if (is_asked && place < values_.size())
      for (const std::string& text : {values_[place].first, values_[place].second})
        out.u32(static_cast<std::uint32_t>(text.size())).text(text);
    return std::move(out).take();
  });
  throw_difference({process_text(first), ByteReader(values[first])},
                   {process_text(other), ByteReader(values[other])}, verb_);
}

}  // namespace cairn::inline v0::distributed
