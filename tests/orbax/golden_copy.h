// golden_copy.h -- copies of golden Orbax checkpoints, to be opened or damaged.
#pragma once

#include <cairn/orbax/open.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/temp_dir.h"

namespace cairn::testing {

namespace fs = std::filesystem;

inline std::string golden(const std::string& name) {
  return std::string(CAIRN_GOLDEN_DIR) + "/orbax/orbax-0.12.8/" + name;
}

// A golden checkpoint copied to <temporary>/<as>.
class GoldenCopy {
 public:
  explicit GoldenCopy(const std::string& name, const std::string& as = "ckpt") : path_(dir_ / as) {
    copy_tree(golden(name), path_);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::string outside(const std::string& name) const { return dir_ / name; }
  void remove(const std::string& name) const { fs::remove_all(*this / name); }
  void put(const std::string& name, std::string_view text) const { put_file(*this / name, text); }
  [[nodiscard]] std::string text(const std::string& name) const {
    const Bytes bytes = read_file(*this / name);
    return std::string(as_text(bytes));
  }
  // Replaces the first `from` in a file.
  void edit(const std::string& name, const std::string& from, const std::string& to) const {
    std::string content = text(name);
    const auto at = content.find(from);
    if (at == std::string::npos) throw Error(Code::kNotFound, from + " is not in " + name);
    put(name, content.replace(at, from.size(), to));
  }
  // The only file of a folder.
  [[nodiscard]] std::string only_file(const std::string& folder) const {
    for (const auto& entry : fs::directory_iterator(*this / folder))
      return folder + "/" + entry.path().filename().string();
    throw Error(Code::kNotFound, folder);
  }

 private:
  TempDir dir_;
  std::string path_;
};

inline std::unique_ptr<Checkpoint> open_uncommitted(const std::string& path) {
  OpenOptions options;
  options.allow_uncommitted = true;
  return open_orbax(path, options);
}

inline std::unique_ptr<Checkpoint> open_step(const std::string& path, std::int64_t step) {
  OpenOptions options;
  options.step = step;
  return open_orbax(path, options);
}

inline std::unique_ptr<Checkpoint> open_item(const std::string& path, const std::string& item) {
  OpenOptions options;
  options.item = item;
  return open_orbax(path, options);
}

inline std::string fact(const Checkpoint& checkpoint, const std::string& label) {
  for (const auto& [name, value] : checkpoint.info().facts)
    if (name == label) return value;
  return "";
}

template <class T>
T scalar(const Checkpoint& checkpoint, const std::string& name) {
  const Array array = checkpoint.read(name);
  T value{};
  if (array.bytes().size() == sizeof(T)) std::memcpy(&value, array.bytes().data(), sizeof(T));
  return value;
}

}  // namespace cairn::testing
