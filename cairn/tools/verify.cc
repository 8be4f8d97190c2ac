// verify.cc -- checking a checkpoint that may be too damaged to open.
#include <cairn/cairn.h>

#include <cairn/base/file.h>
#include <cairn/ocdbt/check.h>
#include <cairn/tools/joint.h>

#include <set>

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

}  // namespace

VerifyReport verify(const std::string& path, const OpenOptions& options, const ProgressFn& progress,
                    const MultiprocessingOptions& multiprocessing) {
  const distributed::Team team(multiprocessing);
  std::unique_ptr<Checkpoint> checkpoint;
  try {
    agree(team, "verify: open", [&] {
      checkpoint = open(path, options);
      return leaves_hash(*checkpoint);
    });
    if (team.alone()) return checkpoint->verify(progress);
    std::vector<VerifyPart> parts;
    for (const Bytes& part : team.exchange("verify: check", distributed::Before::kReadingOrWriting,
                                           [&] { return encode_verify_part(checkpoint->verify_part(share_of(team), progress)); }))
      parts.push_back(decode_verify_part(part));
    return checkpoint->join_verified(std::move(parts));
  } catch (const Error& e) {
    if (e.code() != Code::kDataLoss && e.code() != Code::kOutOfRange) throw;
    const auto said = team.exchange("verify: why it does not open", distributed::Before::kReadingOrWriting, [&] {
      return team.is_primary() ? encode_verify_part({.around = verify_closed(path, e), .arrays = {}}) : Bytes();
    });
    return decode_verify_part(said[team.primary()]).around;
  }
}

}  // namespace cairn
