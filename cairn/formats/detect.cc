// detect.cc -- detects the format of a file. The first bytes decide. Where those bytes themselves
// may be damaged, the extension decides, so that opening the file can report the damage.
#include <cairn/formats/detect.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/json/json.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/files/weight_map.h>
#include <cairn/formats/npz/npy_header.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/io/file.h>
#include <cairn/tree/msgpack/head.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Whether the root is a map whose first key is a string inside the file, or one of flax's arrays.
// (A pickle begins like an empty map, hence the check of the size.)
bool looks_like_msgpack(ByteView first, std::uint64_t file_size) {
  const auto probe = try_call([&] {
    ByteReader in(first);
    const MsgpackHead head = read_msgpack_head(in);
    if (head.type == MsgpackType::kExt)
      return head.ext == 1 && head.length == file_size - in.offset();
    if (head.type != MsgpackType::kMap) return false;
    if (head.length == 0) return file_size == 1;
    const MsgpackHead key = read_msgpack_head(in);
    return key.type == MsgpackType::kText && valid_utf8(in.text(key.length));
  });
  return probe.ok() && probe.value();
}

// A zip whose first member is an array. PyTorch's files are zips, too.
bool looks_like_npz(ByteView first) {
  const auto probe = try_call([&] {
    ByteReader in(first);
    if (in.text(4) != "PK\x03\x04") return false;
    in.take(22);
    const std::uint16_t name = in.u16();
    in.take(2);
    return in.text(name).ends_with(".npy");
  });
  return probe.ok() && probe.value();
}

// A zip archive or a legacy file of torch.save.
bool looks_like_pytorch(ByteView first, std::uint64_t file_size) {
  const auto content = foreign_content(first, file_size);
  return content && content->kind == ForeignKind::kPytorch;
}

// The format of the files that an index names; nullopt for other JSON.
std::optional<Format> format_of_index(const File& file) {
  const auto probe = try_look(file.is_local(), [&]() -> std::optional<Format> {
    const Json root = parse_json(as_text(read_text(file, kMaxIndexBytes)));
    const Json* map = root.find("weight_map");
    if (map == nullptr || map->as_object() == nullptr) return std::nullopt;
    const JsonObject& files = *map->as_object();
    const std::string* first = files.empty() ? nullptr : files.front().second.as_string();
    const bool is_pytorch =
        first != nullptr &&
        (first->ends_with(".bin") || first->ends_with(".pt") || first->ends_with(".pth"));
    return is_pytorch ? Format::kPytorch : Format::kSafetensors;
  });
  return probe.ok() ? probe.value() : std::nullopt;
}

std::optional<Format> format_of_content(const File& file, ByteView first, std::uint64_t size) {
  if (looks_like_safetensors(first)) return Format::kSafetensors;
  if (looks_like_json_object(first))
    if (const auto format = format_of_index(file)) return format;
  if (as_text(first).starts_with(kNpyMagic)) return Format::kNpy;
  if (looks_like_npz(first)) return Format::kNpz;
  if (looks_like_pytorch(first, size)) return Format::kPytorch;
  if (looks_like_msgpack(first, size)) return Format::kMsgpack;
  return std::nullopt;
}

}  // namespace

std::optional<Format> format_of_name(std::string_view path) {
  constexpr std::pair<std::string_view, Format> kEndings[] = {
      {".safetensors", Format::kSafetensors},
      {".safetensors.index.json", Format::kSafetensors},
      {".npy", Format::kNpy},
      {".npz", Format::kNpz},
      {".msgpack", Format::kMsgpack},
      {".pt", Format::kPytorch},
      {".pth", Format::kPytorch},
      {".pt2", Format::kPytorch},
      {".bin.index.json", Format::kPytorch}};
  for (const auto& [ending, format] : kEndings)
    if (path.ends_with(ending)) return format;
  return std::nullopt;
}

std::string_view format_name(Format format) {
  switch (format) {
    case Format::kOrbax:
      return "orbax";
    case Format::kSafetensors:
      return "safetensors";
    case Format::kMsgpack:
      return "msgpack";
    case Format::kNpz:
      return "npz";
    case Format::kNpy:
      return "npy";
    case Format::kTensorflow:
      return "tensorflow";
    case Format::kPytorch:
      return "pytorch";
  }
  return "unknown";
}

std::optional<Format> detect_file(const FileTree& tree, const std::string& path) {
  if (tree.is_folder(path)) return std::nullopt;
  // Comes first: a TensorFlow data file may begin with any bytes.
  if (is_tensorflow(tree, path)) return Format::kTensorflow;
  const File file = tree.open(path);
  const std::uint64_t size = file.size();
  Bytes first(std::min(size, kProbeBytes));
  file.read_into(0, first);
  if (const auto format = format_of_content(file, first, size)) return format;
  return format_of_name(path);  // opening it says what is wrong, or what the file is
}

}  // namespace cairn::inline v0
