// output_place.cc -- tells stores that can be written from those that cannot.
#include <cairn/formats/output/output_place.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/formats/output/machine_order.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/kvstore/url.h>

#include <utility>

namespace cairn::inline v0 {

OutputPlace::OutputPlace(const std::string& where, const StoreOptions& options) : path_(where) {
  check_writes_machine_order();
  if (!is_store_url(where)) return;
  check_can_write(where);
  const std::string scheme = url_scheme(where);
  const std::string folder = parent_of(where);
  if (where.ends_with('/') || url_scheme(folder + "/").empty() ||
      folder.size() == scheme.size() + 2)
    throw Error(Code::kInvalidArgument, where + ": the name of the file to write is missing");
  folder_ = folder + "/";
  store_ = open_store(folder, options);
}

OutputPlace::OutputPlace(StorePtr store, const std::string& url, const std::string& name,
                         std::chrono::milliseconds lease)
    : path_(url + "/" + name), store_(std::move(store)), folder_(url + "/"), lease_(lease) {
  check_writes_machine_order();
}

ClaimedKey OutputPlace::claim_of(const std::string& path) const {
  return {.store = store_, .key = key_of(path), .url = path, .lease = lease_};
}

std::string OutputPlace::key_of(const std::string& path) const {
  if (!path.starts_with(folder_))
    throw Error(Code::kInvalidArgument, path + ": does not lie in " + folder_);
  return path.substr(folder_.size());
}

}  // namespace cairn::inline v0
