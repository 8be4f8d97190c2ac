// verify.cc -- checking a checkpoint that may be too damaged to open.
#include <cairn/cairn.h>

#include <cairn/base/file.h>
#include <cairn/ocdbt/check.h>

#include <set>

namespace cairn {

VerifyReport verify(const std::string& path, const OpenOptions& options, const ProgressFn& progress) {
  try {
    return open(path, options)->verify(progress);
  } catch (const Error& e) {
    if (e.code() != Code::kDataLoss && e.code() != Code::kOutOfRange) throw;
    // What stopped the opening is a finding like any other; the database below it may tell where else there is damage.
    VerifyReport report;
    if (file_exists(path + "/manifest.ocdbt")) {
      std::set<std::string> files;
      ocdbt::check_database(open_file_store(path), report, files);
    }
    if (!report.damaged()) report.findings.push_back({Severity::kDamage, "", path, 0, e.message()});
    return report;
  }
}

}  // namespace cairn
