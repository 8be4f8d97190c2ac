// verify.cc -- checking a checkpoint that may be too damaged to open.
#include <cairn/cairn.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/file.h>
#include <cairn/ocdbt/check.h>
#include <cairn/tools/agree.h>
#include <cairn/tools/joint.h>

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {
namespace {

// What stopped the opening is a finding like any other; the database below it may tell where else there is damage.
VerifyReport verify_closed(const std::string& path, const Error& error) {
  VerifyReport report;
  if (file_exists(path + "/manifest.ocdbt")) {
    std::set<std::string> files;
    ocdbt::check_database(open_file_store(path), report, files);
  }
  if (!report.damaged()) report.findings.push_back({Severity::kDamage, "", path, 0, error.message()});
  return report;
}

// What stops the opening or the checks in one process is a finding for all, if it is damage: they must not part over it.
bool is_damage(const Error& error) { return error.code() == Code::kDataLoss || error.code() == Code::kOutOfRange; }

// A step of which each process says what `work` gives, which it returns, or what damage it has met: `damage` is the first of that then,
// this process's own if it has one.
std::vector<Bytes> exchange_or_damage(const distributed::Team& team, std::string_view step, const std::function<Bytes()>& work,
                                      std::optional<Error>& damage) {
  std::vector<Bytes> said = team.exchange(step, distributed::Before::kReadingOrWriting, [&] {
    ByteWriter out;
    try {
      const Bytes done = work();
      out.u8(0).bytes(done);
    } catch (const Error& e) {
      if (!is_damage(e)) throw;
      damage = e;
      out.u8(1).text(e.message());
    }
    return std::move(out).take();
  });
  for (std::size_t p = 0; p < said.size(); ++p) {
    const bool is_damaged = said[p].at(0) != std::byte{0};
    said[p].erase(said[p].begin());
    if (is_damaged && !damage) damage.emplace(Code::kDataLoss, "process " + std::to_string(p) + ": " + std::string(as_text(said[p])));
  }
  return said;
}

}  // namespace

VerifyReport verify(const std::string& path, const OpenOptions& options, const ProgressFn& progress,
                    const MultiprocessingOptions& multiprocessing) {
  const distributed::Team team(multiprocessing);
  std::unique_ptr<Checkpoint> checkpoint;
  std::optional<Error> damage;
  distributed::Consent opened("sees");
  const auto digests = exchange_or_damage(
      team, "verify: open",
      [&] {
        checkpoint = open(path, options);
        if (!team.alone()) add_opened(*checkpoint, "", opened);
        return std::move(ByteWriter().u64(opened.digest())).take();
      },
      damage);
  if (!damage) {
    std::vector<std::uint64_t> numbers;
    numbers.reserve(digests.size());
    for (const Bytes& digest : digests) numbers.push_back(ByteReader(digest).u64());
    check_opened(numbers, opened, team, "verify: open");
    const auto checked = exchange_or_damage(
        team, "verify: check", [&] { return encode_verify_part(checkpoint->verify_part(share_of(team), progress)); }, damage);
    std::vector<VerifyPart> parts;
    if (!damage)
      for (const Bytes& part : checked) parts.push_back(decode_verify_part(part));
    if (!damage) return checkpoint->join_verified(std::move(parts));
  }
  const auto said = team.exchange("verify: why it does not open", distributed::Before::kReadingOrWriting, [&] {
    return team.is_primary() ? encode_verify_part({.around = verify_closed(path, *damage), .arrays = {}}) : Bytes();
  });
  return decode_verify_part(said[team.primary()]).around;
}

}  // namespace cairn
