// step_links.cc -- resolves the links in the steps of a root.
#include <cairn/orbax/manager/step_links.h>

#include <cairn/error.h>

#include <filesystem>
#include <system_error>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

namespace fs = std::filesystem;

// The paths of the links at and below an entry of the root. What disappears meanwhile has none.
std::vector<std::string> links_of(const Directory& root, const std::string& name) {
  const std::string path = root.path_of(name);
  std::vector<std::string> links;
  const EntryKind kind = root.kind(name);
  if (kind == EntryKind::kLink) links.push_back(path);
  if (kind != EntryKind::kDirectory) return links;
  (void)try_call([&] {
    for_each_below(path, [&](const std::string& below, EntryKind below_kind) {
      if (below_kind == EntryKind::kLink) links.push_back(below);
    });
    return true;
  });
  return links;
}

// The entry of the root that the link leads to or into; "" if it leads elsewhere or nowhere.
std::string entry_behind(const Directory& root, const std::string& link) {
  std::error_code failed;
  const fs::path target = fs::canonical(link, failed);
  if (failed) return "";
  const fs::path below = target.lexically_relative(root.path());
  if (below.empty() || *below.begin() == ".." || *below.begin() == ".") return "";
  return below.begin()->string();
}

}  // namespace

std::map<std::string, std::string> StepLinks::find_needed(const Directory& root,
                                                          const std::set<std::string>& steps,
                                                          const std::set<std::string>& going) {
  std::map<std::string, std::string> needed;
  if (going.empty()) return needed;
  std::vector<std::string> staying;
  for (const DirectoryEntry& entry : root.list())
    if (entry.kind == EntryKind::kLink ||
        (entry.kind == EntryKind::kDirectory && steps.contains(entry.name) &&
         !going.contains(entry.name)))
      staying.push_back(entry.name);
  while (!staying.empty()) {
    const std::string name = std::move(staying.back());
    staying.pop_back();
    // A link may have taken the place of a folder that had none.
    if (without_links_.contains(name) && root.kind(name) != EntryKind::kLink) continue;
    const std::vector<std::string> links = links_of(root, name);
    if (links.empty()) without_links_.insert(name);
    for (const std::string& link : links) {
      std::string entry = entry_behind(root, link);
      if (going.contains(entry) && needed.emplace(entry, link).second)
        staying.push_back(std::move(entry));
    }
  }
  return needed;
}

}  // namespace cairn::inline v0::orbax
