#include <cairn/tools/repair/copies.h>

#include <cairn/base/cancellation.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/tools/repair/file_copies.h>
#include <cairn/tools/repair/must_end.h>
#include <cairn/tools/repair/orbax_copies.h>
#include <cairn/tools/source/open_to_verify.h>

#include <utility>

namespace cairn::inline v0 {
namespace {

// The layout of an Orbax checkpoint. Of a root, a later step that lacks files is meant, as in
// verify. An unfinished checkpoint counts only if there is no other.
std::optional<orbax::Layout> find_layout(const std::string& path, const OpenOptions& options) {
  OpenOptions committed = options;
  committed.allow_uncommitted = false;
  auto found = try_call([&] { return orbax::try_find_layout(path, committed); });
  if (!found && found.error().code() != Code::kFailedPrecondition) throw Error(found.error());
  if (!found) return orbax::try_find_layout(path, options);
  std::optional<orbax::Layout> layout = std::move(found).value();
  if (!layout) return layout;
  for (const orbax::PassedStep& step : layout->passed_over) {
    if (!step.lacks_files) continue;
    OpenOptions later = options;
    later.step = orbax::parse_step(step.folder);
    return orbax::try_find_layout(path, later);
  }
  return layout;
}

FoundCopies find_file_copies(const std::string& path, const OpenOptions& options) {
  FoundCopies found;
  auto opened = try_call([&] { return open_to_verify(path, options); });
  if (opened) {
    const std::string where = opened.value()->info().path;
    found.opened.push_back({.checkpoint = std::move(opened).value(),
                            .text = "",
                            .prefix = "",
                            .is_own = true,
                            .lists_leaves = true});
    add_file_copies(where, options, found);
    return found;
  }
  if (must_end(opened.error()) || opened.error().code() == Code::kNotFound)
    throw Error(opened.error());
  found.why_closed = opened.error();
  add_file_copies(path, options, found);
  // Nothing says that this is a checkpoint.
  if (found.others.empty() && opened.error().code() != Code::kDataLoss) throw Error(opened.error());
  return found;
}

}  // namespace

FoundCopies find_copies(const std::string& path, const OpenOptions& options) {
  return stoppable_by(options.cancel, [&] {
    const auto layout = try_call([&] { return find_layout(path, options); });
    if (!layout && must_end(layout.error())) throw Error(layout.error());
    if (layout && layout.value()) return find_orbax_copies(*layout.value(), options);
    return find_file_copies(path, options);
  });
}

}  // namespace cairn::inline v0
