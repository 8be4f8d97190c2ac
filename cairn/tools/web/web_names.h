// web_names.h -- the names of a checkpoint's files, from fixed lists and from its records.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/kvstore/folders/known_names.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// Asks for the files of one checkpoint.
class WebNames {
 public:
  WebNames(std::shared_ptr<const KnownNames> names, const OpenOptions& options)
      : names_(std::move(names)), options_(options) {}

  // Looks for a checkpoint in `folder` ("" or with a final '/'): an Orbax checkpoint, a Zarr array,
  // a Zarr group with consolidated metadata, a safetensors model, a TensorFlow checkpoint. Throws
  // unimplemented if the server answers for names that do not exist.
  void find_checkpoint(const std::string& folder) const;

  // True if the files that most checkpoints begin with are in `folder`.
  [[nodiscard]] bool has_markers(const std::string& folder) const;

 private:
  void find_items(const std::string& folder) const;
  void find_item(const std::string& folder, const std::string& name) const;
  void find_random_keys(const std::string& folder) const;
  // The files of all processes: prefix + "0" + rest, and so on. That of the first was asked for.
  void find_process_files(const std::string& prefix, std::string_view rest) const;
  void find_tree(const std::string& folder) const;
  [[nodiscard]] std::vector<std::string> aggregate_arrays(const std::string& folder) const;
  void find_arrays(const std::vector<std::string>& folders) const;
  void find_chunks(const std::string& folder) const;
  void find_group(const std::string& folder) const;
  void find_models(const std::string& folder) const;
  void find_tensorflow(const std::string& folder) const;
  // The text of a file that is there; nullopt if it is absent or too large.
  [[nodiscard]] std::optional<std::string> text_of(const std::string& key) const;

  std::shared_ptr<const KnownNames> names_;
  const OpenOptions& options_;
};

}  // namespace cairn::inline v0
