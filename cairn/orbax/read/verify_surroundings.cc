// verify_surroundings.cc -- verifies that a checkpoint contains everything that it records, and
// verifies the items that are not pytrees.
#include <cairn/base/json/json.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/ocdbt/read/check.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/read/proto_text.h>
#include <cairn/orbax/read/verify.h>

#include <algorithm>
#include <set>

namespace cairn::inline v0::orbax {
namespace {

void add_finding(VerifyReport& report, Severity severity, std::string file, std::string message) {
  Finding finding;
  finding.severity = severity;
  finding.file = std::move(file);
  finding.message = std::move(message);
  report.findings.push_back(std::move(finding));
}

void add_failure(VerifyReport& report, std::string file, const Error& error) {
  add_finding(report, severity_of(error.code()), std::move(file), error.message());
}

// Verifies a JSON file of an item. Returns its value if it is valid.
std::optional<Json> check_json(const FolderHandle& folder, const std::string& file,
                               VerifyReport& report) {
  auto parsed =
      try_call([&] { return parse_json(as_text(folder.read_text(file, kMaxMetadataFile))); });
  if (parsed) return std::move(parsed).value();
  add_failure(report, file, parsed.error());
  return std::nullopt;
}

// Verifies the text of a protocol buffer.
void check_proto_text(const FolderHandle& folder, const std::string& file, VerifyReport& report) {
  const auto text = try_call([&] { return folder.read_text(file, kMaxMetadataFile); });
  if (!text) return add_failure(report, file, text.error());
  const auto fault = find_proto_text_fault(as_text(text.value()));
  if (!fault) return;
  add_finding(report, Severity::kDamage, file,
              "the protocol buffer's text is broken: " + fault->message);
  report.findings.back().offset = fault->offset;
}

// Verifies a file that marks a folder. Orbax looks only for its name, and so does Cairn.
void check_marker(const FolderHandle& folder, const std::string& above, std::string_view name,
                  VerifyReport& report) {
  const std::string file = join(above, name);
  const std::string kind = folder.kind_at(file);
  for (const std::string_view usual : {"nothing", "a file", "a directory", "a symbolic link"})
    if (kind == usual) return;
  add_finding(report, Severity::kDamage, file, "is not a regular file (it is " + kind + ")");
}

// A random key item has a second folder, which states how to interpret the array in the first
// folder.
void verify_random_key(const Listing& listing, VerifyReport& report) {
  const std::string& folder = listing.path;
  for (const auto& [name, member] :
       {std::pair{"jax_random_key", "typed"}, std::pair{"np_random_key", "legacy"}}) {
    const std::string description = std::string(name) + "_metadata";
    const std::string file = join(join(folder, description), "metadata");
    if (!listing.has_folder(name) && !listing.has_folder(description)) continue;
    check_marker(*listing.folder, join(folder, name), kCommitFile, report);
    check_marker(*listing.folder, join(folder, description), kCommitFile, report);
    if (!listing.folder->exists(file)) continue;  // one of Layout::lost
    const auto json = check_json(*listing.folder, file, report);
    if (json && (json->find(member) == nullptr || !json->find(member)->as_bool()))
      add_finding(report, Severity::kDamage, file, "has no '" + std::string(member) + "'");
  }
}

// Returns true if Orbax itself has the handler. It finds a handler by this name, with the module.
bool is_orbax_handler(std::string_view handler) {
  constexpr std::string_view kNames[] = {"PyTreeCheckpointHandler",
                                         "StandardCheckpointHandler",
                                         "ArrayCheckpointHandler",
                                         "JsonCheckpointHandler",
                                         "ProtoCheckpointHandler",
                                         "JaxRandomKeyCheckpointHandler",
                                         "NumpyRandomKeyCheckpointHandler",
                                         "PyTreeHandler",
                                         "JsonHandler",
                                         "MetricsHandler",
                                         "ProtoHandler",
                                         "StatefulCheckpointableHandler"};
  const std::size_t dot = handler.rfind('.');
  return handler.starts_with("orbax.checkpoint.") &&
         std::ranges::find(kNames, handler.substr(dot + 1)) != std::end(kNames);
}

// Reports what nothing has checked: without metadata and without a tree, a folder may be a
// checkpoint of its own.
void note_unchecked(const std::string& path, VerifyReport& report) {
  add_finding(report, Severity::kNotChecked, path,
              "it is not known what this is: the folder above has no " +
                  std::string(kCheckpointMetadataFile) + ", which names its items");
}

// As note_unchecked, for an item that is not a tree.
void note_unknown_item(const Item& item, const Listing& listing, VerifyReport& report) {
  const auto is_known_file = [&](const std::string& name) {
    return is_json_file(name, item.name) || name == kProtoItemFile || name == kCommitFile;
  };
  const auto is_known_folder = [](const std::string& name) {
    return name.starts_with(kJaxRandomKeyFolder) || name.starts_with(kNumpyRandomKeyFolder);
  };
  if (!std::ranges::all_of(listing.files, is_known_file) ||
      !std::ranges::all_of(listing.folders, is_known_folder))
    note_unchecked(item.path, report);
}

// Verifies an item that is not a tree. `handler` is null if none is recorded.
void verify_other_item(const Item& item, const Listing& listing, const std::string* handler,
                       VerifyReport& report) {
  for (const auto& name : listing.files)
    if (is_json_file(name, item.name)) check_json(*listing.folder, join(item.path, name), report);
  // A handler of the user's own may give this name to a file of any content.
  if (listing.has_file(kProtoItemFile) && (handler == nullptr || !is_foreign_handler(*handler)))
    check_proto_text(*listing.folder, join(item.path, kProtoItemFile), report);
  verify_random_key(listing, report);
}

// Returns true if the version of Orbax that wrote this tree always writes `_CHECKPOINT_METADATA`.
bool is_recent(const Item& item) {
  const auto metadata = try_call([&] {
    return parse_tree_metadata(
        as_text(item.folder->read_text(join(item.path, kTreeMetadataFile), kMaxMetadataFile)));
  });
  return metadata && metadata.value().use_ocdbt;
}

using Handlers = std::vector<std::pair<std::string, std::string>>;  // item name, handler

const std::string* find_handler(const Handlers& handlers, const std::string& item) {
  const auto it = std::find_if(handlers.begin(), handlers.end(),
                               [&](const auto& entry) { return entry.first == item; });
  return it == handlers.end() ? nullptr : &it->second;
}

// Verifies every item that exists. `handlers` is nullopt if the metadata cannot be read.
void verify_stored_items(const Layout& layout, const std::optional<Handlers>& handlers,
                         VerifyReport& report) {
  if (layout.kind != LayoutKind::kComposite) return;
  const bool finished = layout.folder->exists(join(layout.path, kCommitFile));
  if (!layout.is_marked)
    for (const auto& name : list_directory(layout.folder, layout.path).files)
      if (name != kCommitFile) note_unchecked(join(layout.path, name), report);
  for (const auto& item : layout.items) {
    const std::string folder =
        item.kind == ItemKind::kOther ? item.path : join(layout.path, item.name);
    check_marker(*layout.folder, folder, kCommitFile, report);
    const auto listing = try_call([&] { return list_directory(layout.folder, folder); });
    if (!listing) {
      // verify_lost_item reports an unreadable pytree.
      if (item.kind == ItemKind::kOther) add_failure(report, folder, listing.error());
      continue;
    }
    const std::string* handler = handlers ? find_handler(*handlers, item.name) : nullptr;
    if (handler != nullptr && !layout.v1 && !is_orbax_handler(*handler))
      add_finding(report, Severity::kNotChecked, join(layout.path, kCheckpointMetadataFile),
                  "item '" + item.name + "' was saved by the handler '" + *handler +
                      "', which Orbax does not have: only a program that has it can restore the "
                      "item");
    if (item.kind == ItemKind::kOther) {
      verify_other_item(item, listing.value(), handler, report);
      if (!layout.is_marked) note_unknown_item(item, listing.value(), report);
    } else if (!item.note.empty()) {
      verify_random_key(listing.value(), report);
    }
    if (handlers && handler == nullptr && finished && item.kind == ItemKind::kPytree &&
        is_recent(item))
      add_finding(report, Severity::kDamage, join(layout.path, kCheckpointMetadataFile),
                  "records no handler for item '" + item.name +
                      "': it can be restored only if the caller names one");
  }
}

}  // namespace

void verify_lost_item(const LostItem& lost, VerifyReport& report) {
  const std::size_t first = report.findings.size();
  // If the folder cannot be read, the error of the item already reports that.
  const auto has_database =
      try_call([&] { return lost.item.folder->exists(join(lost.item.path, kManifestFile)); });
  if (has_database.ok() && has_database.value()) {
    std::set<std::string> files;
    ocdbt::check_database(files_of(lost.item.folder->open_below(lost.item.path)), report, files);
  }
  const std::string& why = lost.error.message();
  const auto says_it = [&](const Finding& finding) {
    return !finding.file.empty() && why.find(finding.file) != std::string::npos;
  };
  if (std::none_of(report.findings.begin() + static_cast<std::ptrdiff_t>(first),
                   report.findings.end(), says_it))
    add_failure(report, lost.item.path, lost.error);
}

void verify_root_metadata(const FolderHandle& root, VerifyReport& report) {
  const std::string file = root_metadata_file(root);
  if (file.empty()) return;
  const auto parsed = try_call(
      [&] { return parse_root_metadata(as_text(root.read_text(file, kMaxMetadataFile))); });
  if (!parsed) add_failure(report, file, parsed.error());
}

void verify_surroundings(const Layout& layout, VerifyReport& report) {
  if (!layout.root.empty()) verify_root_metadata(*layout.root_folder, report);
  if (!layout.uncommitted.empty())
    add_finding(report, Severity::kNote, layout.path, "not committed: " + layout.uncommitted);
  for (const PassedStep& step : layout.passed_over)
    add_finding(report, Severity::kNote, join(layout.root, step.folder),
                "a later step that is not complete; it was not checked: " + step.why);
  if (layout.kind == LayoutKind::kZarr) return;
  check_marker(*layout.folder, layout.path, kCommitFile, report);
  check_marker(*layout.folder, layout.path, kV1Marker, report);
  const std::string file = join(layout.path, kCheckpointMetadataFile);
  if (layout.metadata_error) add_failure(report, file, *layout.metadata_error);
  for (const LostPart& part : layout.lost)
    add_finding(report, Severity::kDamage, part.file, part.why);
  std::optional<Handlers> handlers;
  if (layout.metadata)
    handlers = layout.metadata->item_handlers;
  else if (!layout.metadata_error && !layout.v1)
    handlers.emplace();
  verify_stored_items(layout, handlers, report);
}

}  // namespace cairn::inline v0::orbax
