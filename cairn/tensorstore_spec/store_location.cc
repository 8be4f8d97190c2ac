// store_location.cc -- chooses the driver of a store or of a URL; the drivers file and memory.
#include <cairn/tensorstore_spec/store_location.h>

#include <cairn/base/text.h>
#include <cairn/kvstore/url.h>
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/object_location.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace cairn::inline v0 {

struct SpecContext::State {
  std::mutex mutex;
  std::map<std::string, StorePtr> memory;
  StoreOptions store_options;
};

SpecContext::SpecContext() : state_(std::make_shared<State>()) {}

SpecContext::SpecContext(StoreOptions store_options) : state_(std::make_shared<State>()) {
  state_->store_options = std::move(store_options);
}

const StoreOptions& SpecContext::store_options() const { return state_->store_options; }

StorePtr SpecContext::memory_store(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  StorePtr& store = state_->memory[name];
  if (!store) store = make_memory_store();
  return store;
}

namespace tensorstore_spec {
namespace {

// Applies TensorStore's rules for file paths: no component is empty, "." or "..".
std::string checked_path(std::string path, const std::string& pointer) {
  std::replace(path.begin(), path.end(), '\\', '/');
  if (path.find('\0') != std::string::npos || !has_only_names(path))
    refuse(pointer, "\"" + path + "\" is not a file path: it has an empty part, \".\" or \"..\"");
  return path;
}

StoreLocation files(std::string path, Durability durability) {
  StoreLocation location;
  location.path = std::move(path);
  location.is_files = true;
  location.is_external = true;
  location.below = [durability](const std::string& prefix) {
    return open_file_store(prefix.empty() ? "." : prefix, durability);
  };
  return location;
}

StoreLocation memory(std::string path, StorePtr store) {
  StoreLocation location;
  location.path = std::move(path);
  location.below = [store = std::move(store)](const std::string& prefix) {
    return prefix.empty() ? store : prefix_store(store, prefix);
  };
  return location;
}

StoreLocation parse_files(Members& members) {
  std::string path = checked_path(members.text("path").value_or(""), members.pointer("path"));
  const bool sync = members.flag("file_io_sync").value_or(true);
  members.pass_over_resources(
      {"file_io_concurrency", "file_io_locking", "file_io_mode", "file_io_retries", "context"});
  members.finish();
  return files(std::move(path), sync ? Durability::kSynced : Durability::kUnsynced);
}

StoreLocation parse_memory(Members& members, const SpecContext& context) {
  std::string path = members.text("path").value_or("");
  constexpr std::string_view kResource = "memory_key_value_store";
  std::string name = members.text(kResource).value_or(std::string(kResource));
  if (!name.starts_with(kResource) ||
      (name.size() > kResource.size() && name[kResource.size()] != '#'))
    refuse(members.pointer(kResource),
           "expected \"memory_key_value_store#<name>\", not \"" + name + "\"");
  (void)members.flag("atomic");
  members.pass_over_resources({"context"});
  members.finish();
  return memory(std::move(path),
                context.memory_store(name.substr(std::min(name.size(), kResource.size() + 1))));
}

StoreLocation parse_url(const std::string& url, const std::string& pointer, const Scope& scope) {
  constexpr std::string_view kMemory = "memory://";
  if (url.find('|') != std::string::npos)
    refuse(pointer, "Cairn does not read URLs with \"|\"; write the store as an object",
           Code::kUnimplemented);
  if (is_object_url(url)) return parse_object_url(url, pointer, scope);
  return with_context(
      [&] { return "spec " + pointer; },
      [&] {
        if (url.starts_with("file://"))
          return files(checked_path(file_url_path(url), pointer), Durability::kSynced);
        if (url.starts_with(kMemory))
          return memory(percent_decoded(std::string_view(url).substr(kMemory.size()), url),
                        scope.context().memory_store());
        throw Error(Code::kUnimplemented, "Cairn has no store for URLs that begin with \"" +
                                              url.substr(0, url.find(':')) +
                                              ":\"; it has file, memory, gs, s3, http and https");
      });
}

}  // namespace

std::string folder_prefix(std::string path) {
  if (!path.empty() && path.back() != '/') path += '/';
  return path;
}

StoreLocation parse_store_location(const Json& spec, const std::string& pointer,
                                   const Scope& scope) {
  if (const std::string* url = spec.as_string()) return parse_url(*url, pointer, scope);
  Members members(spec, pointer);
  (void)members.require("driver");
  const std::string driver = *members.text("driver");
  if (driver == "file") return parse_files(members);
  if (driver == "memory") return parse_memory(members, scope.context());
  if (driver == "ocdbt") return parse_database(members, scope);
  if (driver == "gcs") return parse_gcs(members, scope);
  if (driver == "s3") return parse_s3(members, scope);
  if (driver == "http") return parse_http(members, scope);
  refuse(
      members.pointer("driver"),
      "Cairn has no store driver \"" + driver + "\"; it has file, memory, ocdbt, gcs, s3 and http",
      Code::kUnimplemented);
}

}  // namespace tensorstore_spec
}  // namespace cairn::inline v0
