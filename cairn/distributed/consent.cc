// consent.cc -- one number for what a process means, all of it when the numbers differ.
//
//   for each that was added  u32 size, name; u32 size, meaning
#include <cairn/base/byte_io.h>
#include <cairn/base/mix.h>
#include <cairn/distributed/consent.h>
#include <cairn/error.h>

#include <algorithm>

namespace cairn::distributed {
namespace {

std::string take_text(ByteReader& in) { return std::string(in.text(in.u32())); }

[[noreturn]] void refuse(const std::string& name, const std::string& why) { throw Error(Code::kInvalidArgument, name + ": " + why); }

// Throws where the two differ first.
void compare(ByteView of_first, ByteView of_other, const std::string& who) {
  ByteReader first(of_first);
  ByteReader other(of_other);
  while (!first.at_end() && !other.at_end()) {
    const std::string first_name = take_text(first), first_meaning = take_text(first);
    const std::string other_name = take_text(other), other_meaning = take_text(other);
    if (first_name != other_name) refuse(first_name, who + " has " + other_name + " in its place");
    if (first_meaning != other_meaning) refuse(first_name, who + " means " + other_meaning + ", process 0 " + first_meaning);
  }
  if (!first.at_end()) refuse(take_text(first), "process 0 has it, " + who + " has not");
  if (!other.at_end()) refuse(take_text(other), who + " has it, process 0 has not");
}

}  // namespace

std::uint64_t Consent::digest() const {
  std::uint64_t digest = meant_.size();
  for (const auto& [name, meaning] : meant_) digest = hash_of(as_bytes(meaning), mixed(hash_of(as_bytes(name), mixed(digest))));
  return digest;
}

void Consent::check(std::span<const std::uint64_t> digests, const Team& team, std::string_view name) const {
  if (std::all_of(digests.begin(), digests.end(), [&](std::uint64_t digest) { return digest == digests[0]; })) return;
  const auto said = team.exchange(name, Before::kShortWork, [&] {
    ByteWriter out;
    for (const auto& [what, meaning] : meant_)
      for (const std::string& text : {what, meaning}) out.u32(static_cast<std::uint32_t>(text.size())).text(text);
    return std::move(out).take();
  });
  for (std::size_t p = 1; p < said.size(); ++p) compare(said[0], said[p], "process " + std::to_string(p));
  throw Error(Code::kFailedPrecondition, "processes that mean the same have said different things");
}

}  // namespace cairn::distributed
