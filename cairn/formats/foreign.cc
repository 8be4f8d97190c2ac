// foreign.cc -- recognises PyTorch, GGUF and Keras files, so that errors can name them.
#include <cairn/formats/foreign.h>

#include <cairn/base/byte_io.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/io/folder_handle.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kFirstBytes = 4096;
constexpr std::size_t kMostFiles = 1000;
constexpr std::string_view kZip = "PK\x03\x04"sv;
constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n"sv;
constexpr std::string_view kGguf = "GGUF"sv;
// PyTorch's number 0x1950a86a20f9469cfc6c as a pickle of protocol 2.
constexpr std::string_view kLegacyPytorch =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;

// Returns the name of the first member of a zip file; empty if it is cut off.
std::string_view first_member(ByteView first) {
  const auto name = try_call([&] {
    ByteReader in(first);
    in.take(26);
    const std::uint16_t length = in.u16();
    in.take(2);
    return in.text(length);
  });
  return name ? name.value() : std::string_view();
}

std::string_view zip_format(ByteView first) {
  const std::string_view name = first_member(first);
  // torch.save writes <name>/data.pkl first; torch.jit.save <name>/constants.pkl or a code file.
  if (name.ends_with("/data.pkl") || name.ends_with("/constants.pkl") ||
      name.ends_with("/version") || name.ends_with("/.format_version"))
    return "a PyTorch checkpoint";
  if (name == "metadata.json" || name == "config.json" || name == "model.weights.h5")
    return "a Keras model";
  return "";
}

// HDF5 may begin behind a user block of 512, 1024, 2048, ... bytes.
bool is_hdf5(std::string_view text) {
  if (text.starts_with(kHdf5)) return true;
  for (std::size_t at = 512; at < text.size(); at *= 2)
    if (text.substr(at).starts_with(kHdf5)) return true;
  return false;
}

bool is_pickle(std::string_view text) {
  return text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
}

}  // namespace

std::string_view foreign_format(ByteView first) {
  const std::string_view text = as_text(first);
  if (text.starts_with(kZip)) return zip_format(first);
  if (text.starts_with(kLegacyPytorch)) return "a PyTorch checkpoint (legacy format)";
  if (text.starts_with(kGguf)) return "a GGUF model";
  if (is_hdf5(text)) return "an HDF5 file, as Keras writes (.h5)";
  if (is_pickle(text)) return "a Python pickle";
  return "";
}

void refuse_foreign_file(const std::string& path) {
  const File file = File::open(path);
  Bytes first(std::min(file.size(), kFirstBytes));
  file.read_into(0, first);
  if (const std::string_view format = foreign_format(first); !format.empty())
    throw Error(Code::kUnimplemented,
                path + " is " + std::string(format) + ", which Cairn does not read yet");
}

void refuse_foreign_files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (auto& [name, is_folder] : FolderHandle::open(folder)->list(folder))
    if (!is_folder) files.push_back(std::move(name));
  std::sort(files.begin(), files.end());
  if (files.size() > kMostFiles) files.resize(kMostFiles);
  for (const std::string& name : files) {
    try {
      refuse_foreign_file(folder + "/" + name);
    } catch (const Error& error) {
      if (error.code() == Code::kUnimplemented) throw;
    }
  }
}

}  // namespace cairn::inline v0
