// temp_dir.h -- a new folder that is deleted with its contents at the end of its scope.
#pragma once

#include <cairn/error.h>
#include <cairn/io/file.h>
#include <stdlib.h>  // mkdtemp
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::testing {

class TempDir {
 public:
  TempDir() : TempDir(std::filesystem::temp_directory_path()) {}
  explicit TempDir(const std::filesystem::path& parent)
      : path_((parent / "cairn-test-XXXXXX").string()) {
    if (!mkdtemp(path_.data())) throw Error(Code::kIo, "cannot make " + path_);
  }
  // Uses a folder in memory if the system lets the user write one: for tests that sync thousands of
  // files.
  static TempDir in_memory() {
    const char* const memory = "/dev/shm";
    return access(memory, W_OK) == 0 ? TempDir(memory) : TempDir();
  }
  TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempDir& operator=(TempDir&&) = delete;
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const {
    return path_ + "/" + std::string(name);
  }

 private:
  std::string path_;
};

// Writes a file in place, as any program would, and creates the folders above it.
inline void put_file(const std::string& path, ByteView bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw Error(Code::kIo, "cannot write " + path);
}
inline void put_file(const std::string& path, std::string_view text) {
  put_file(path, as_bytes(text));
}

// Copies a golden folder or file, so that a test can damage the copy.
inline void copy_tree(const std::string& from, const std::string& to) {
  std::filesystem::create_directories(std::filesystem::path(to).parent_path());
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

}  // namespace cairn::testing
