// consistency.cc -- one digest of the values that all processes must agree on. When the digests
// differ, two processes look for the first value that differs, in two gatherings:
//
//   first  u64 for each value that was added
//   then   u32 size, name; u32 size, meaning of the first value whose numbers differ;
//          nothing if a process has no such value
#include <cairn/distributed/consistency.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/hash.h>
#include <cairn/error.h>

#include <algorithm>

namespace cairn::inline v0::distributed {
namespace {

std::string take_text(ByteReader& in) { return std::string(in.text(in.u32())); }

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(Code::kInvalidArgument, name + ": " + why);
}

// Throws invalid_argument, which says how the two processes differ.
void compare(ByteView of_first, ByteView of_other, const std::string& who,
             const std::string& verb) {
  ByteReader first(of_first);
  ByteReader other(of_other);
  if (other.at_end() && !first.at_end())
    refuse(take_text(first), "process 0 has it, " + who + " has not");
  if (first.at_end() && !other.at_end())
    refuse(take_text(other), who + " has it, process 0 has not");
  const std::string first_name = take_text(first), first_meaning = take_text(first);
  const std::string other_name = take_text(other), other_meaning = take_text(other);
  if (first_name != other_name) refuse(first_name, who + " has " + other_name + " in its place");
  refuse(first_name, who + " " + verb + " " + other_meaning + ", process 0 " + first_meaning);
}

// Returns the index of the first number that differs.
std::size_t first_difference(const Bytes& first, const Bytes& other) {
  const auto [at, ignored] = std::mismatch(first.begin(), first.end(), other.begin(), other.end());
  return static_cast<std::size_t>(at - first.begin()) / sizeof(std::uint64_t);
}

}  // namespace

std::uint64_t ConsistencyCheck::digest_of(const Meant& meant, std::uint64_t before) {
  return fnv1a(as_bytes(meant.second),
               splitmix64(fnv1a(as_bytes(meant.first), splitmix64(before))));
}

std::uint64_t ConsistencyCheck::digest() const {
  std::uint64_t digest = meant_.size();
  for (const Meant& meant : meant_) digest = digest_of(meant, digest);
  return digest;
}

void ConsistencyCheck::check(std::span<const std::uint64_t> digests, const ProcessGroup& group,
                             std::string_view name) const {
  const auto odd = std::find_if(digests.begin(), digests.end(),
                                [&](std::uint64_t digest) { return digest != digests[0]; });
  if (odd == digests.end()) return;
  // The values of all processes could take too much memory, so only two processes send numbers.
  const auto other = static_cast<std::size_t>(odd - digests.begin());
  const bool is_asked = group.index() == 0 || group.index() == other;
  const auto numbers = group.gather(name, StepKind::kControl, [&] {
    ByteWriter out;
    for (std::size_t i = 0; is_asked && i < meant_.size(); ++i) out.u64(digest_of(meant_[i], 0));
    return std::move(out).take();
  });
  const std::size_t place = first_difference(numbers[0], numbers[other]);
  const auto said = group.gather(name, StepKind::kControl, [&] {
    ByteWriter out;
    if (is_asked && place < meant_.size())
      for (const std::string& text : {meant_[place].first, meant_[place].second})
        out.u32(static_cast<std::uint32_t>(text.size())).text(text);
    return std::move(out).take();
  });
  compare(said[0], said[other], "process " + std::to_string(other), verb_);
}

}  // namespace cairn::inline v0::distributed
