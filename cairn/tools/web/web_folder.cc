// web_folder.cc -- tries a file, a TensorFlow prefix, and a folder.
#include <cairn/tools/web/web_folder.h>

#include <cairn/error.h>
#include <cairn/kvstore/folders/known_names.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tools/web/web_names.h>

#include <fmt/format.h>

#include <memory>

namespace cairn::inline v0 {
namespace {

// True for "http://host": there is no file.
bool is_host_alone(const std::string& url) {
  return url.find('/', url.find("://") + 3) == std::string::npos;
}

// Programs write their steps as "7", "step_7" and "step_00000007".
std::vector<std::string> step_names(std::int64_t step) {
  return {std::to_string(step), fmt::format("{:08}", step), fmt::format("step_{}", step),
          fmt::format("step_{:08}", step), fmt::format("checkpoint_{}", step)};
}

[[noreturn]] void fail_nothing_there(const std::string& url, const OpenOptions& options) {
  const std::string steps =
      options.step
          ? fmt::format(" Step {} is in no folder of a usual name; give its URL.", *options.step)
          : "";
  throw Error(Code::kNotFound,
              url +
                  ": no file is there, nor a checkpoint that Cairn can find. A web server does not "
                  "list its files, so Cairn asked for the usual names (_METADATA, "
                  "_CHECKPOINT_METADATA, manifest.ocdbt, zarr.json, .zarray, "
                  "model.safetensors.index.json, ...)." +
                  steps +
                  " Give the URL of a file, of one checkpoint (a step, not the folder of the "
                  "steps), or of a TensorFlow prefix");
}

}  // namespace

FileTree web_tree_at(const std::string& url, const OpenOptions& options) {
  if (!is_host_alone(url)) {
    FileTree around = tree_around(url, options.store);
    if (around.exists(url) || around.exists(url + ".index")) return around;
  }
  const auto names = std::make_shared<KnownNames>(open_store(url, options.store));
  const WebNames finder(names, options);
  finder.find_checkpoint("");
  if (!names->has_folder("") && options.step)
    for (const std::string& name : step_names(*options.step))
      if (finder.has_markers(name + "/")) finder.find_checkpoint(name + "/");
  if (!names->has_folder("")) fail_nothing_there(url, options);
  return FileTree(StoreFolder::open(names, url));
}

}  // namespace cairn::inline v0
