// verify_groups.cc -- verifies the documents of a Zarr hierarchy that describe no array.
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/handlers/array_reader.h>
#include <cairn/orbax/read/verify.h>
#include <cairn/zarr/metadata/array_metadata.h>
#include <cairn/zarr/metadata/group_metadata.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {
namespace {

// Returns what is wrong with the document; "" if nothing is.
std::string fault_of(const KvStore& store, const std::string& key) {
  const auto text = store.read_at_most(key, handlers::kMaxGroupBytes);
  if (!text) return "";  // removed since it was listed
  const auto fault = zarr::find_group_fault(name_of(key), as_text(*text));
  return fault ? "zarr-python refuses the group: " + *fault : "";
}

}  // namespace

void verify_groups(const PytreeItem& item, VerifyReport& report) {
  // Orbax reads no groups.
  if (item.structure != Structure::kNames || item.storage != ArrayStorage::kFolders) return;
  if (item.arrays == nullptr) return;
  const auto damaged = [&](const std::string& key, Severity severity, std::string why) {
    Finding finding;
    finding.severity = severity;
    finding.file = item.arrays->describe(key);
    finding.message = std::move(why);
    report.findings.push_back(std::move(finding));
  };
  for (const ListEntry& entry : item.keys) {
    const std::string_view name = name_of(entry.key);
    if (!zarr::is_group_document(name)) continue;
    if (name == "zarr.json" && !handlers::is_group(item.arrays, entry.key)) continue;
    report.bytes += entry.size;
    const auto fault = try_call([&] { return fault_of(*item.arrays, entry.key); });
    if (!fault)
      damaged(entry.key, severity_of(fault.error().code()), fault.error().message());
    else if (!fault.value().empty())
      damaged(entry.key, Severity::kDamage, fault.value());
  }
}

}  // namespace cairn::inline v0::orbax
