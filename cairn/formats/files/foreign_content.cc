// foreign_content.cc -- a table of first bytes, and the contents that need more than a comparison.
#include <cairn/formats/files/foreign_content.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/git_lfs.h>
#include <cairn/base/utf8.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kForeignProbe = 4096;
constexpr std::size_t kShownText = 60;  // bytes that a message quotes
constexpr std::string_view kZip = "PK\x03\x04"sv;
constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n"sv;
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf"sv;
constexpr std::size_t kTarMark = 257;
constexpr std::string_view kSpace = " \t\r\n\f\v"sv;

constexpr std::string_view kOpenAsPytorch = "cairn::open reads it";
constexpr std::string_view kSaveFromKeras =
    "load it with Keras or h5py and save its arrays with numpy.savez";
constexpr std::string_view kDownloadAgain =
    "download it again (the server may ask for a login, or the address may be wrong)";
constexpr std::string_view kUnpack = "unpack it, and open what was in it";

struct Magic {
  std::size_t offset;
  std::string_view bytes;
  ForeignKind kind;
  std::string_view what;
  std::string_view advice;
};
constexpr Magic kMagic[] = {
    {0, kUnfinishedMark, ForeignKind::kUnfinished,
     "the mark of a save that is in progress, or was interrupted",
     "if nobody saves there, save again and allow replacing it with --force (if_exists)"},
    {0, "GGUF"sv, ForeignKind::kProgram, "a GGUF model",
     "convert it with the gguf package of llama.cpp"},
    {0, "ggml"sv, ForeignKind::kProgram, "a GGML model", "convert it with llama.cpp"},
    {0, "lmgg"sv, ForeignKind::kProgram, "a GGML model", "convert it with llama.cpp"},
    {0, "tjgg"sv, ForeignKind::kProgram, "a GGML model", "convert it with llama.cpp"},
    {4, "TFL3"sv, ForeignKind::kProgram, "a TensorFlow Lite model",
     "open the checkpoint that it was made from"},
    {0, "PAR1"sv, ForeignKind::kProgram, "a Parquet file", "read it with pyarrow"},
    {0, "ARROW1"sv, ForeignKind::kProgram, "an Arrow file", "read it with pyarrow"},
    {0, "MATLAB 5.0"sv, ForeignKind::kProgram, "a MATLAB file", "read it with scipy.io.loadmat"},
    {0, "SQLite format 3"sv, ForeignKind::kProgram, "an SQLite database", "read it with sqlite3"},
    {0, "\x1f\x8b"sv, ForeignKind::kArchive, "compressed with gzip", "decompress it with gunzip"},
    {0, "BZh"sv, ForeignKind::kArchive, "compressed with bzip2", "decompress it with bunzip2"},
    {0, "\xfd\x37zXZ\0"sv, ForeignKind::kArchive, "compressed with xz", "decompress it with unxz"},
    {0, "\x28\xb5\x2f\xfd"sv, ForeignKind::kArchive, "compressed with zstd",
     "decompress it with unzstd"},
    {0, "\x04\x22\x4d\x18"sv, ForeignKind::kArchive, "compressed with lz4",
     "decompress it with unlz4"},
    {0, "7z\xbc\xaf\x27\x1c"sv, ForeignKind::kArchive, "a 7z archive", kUnpack},
    {0, "Rar!\x1a\x07"sv, ForeignKind::kArchive, "a RAR archive", kUnpack},
};

ForeignContent make_content(ForeignKind kind, std::string_view what, std::string_view advice) {
  return {kind, std::string(what), std::string(advice)};
}

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

std::optional<ForeignContent> zip_content(ByteView first) {
  const std::string_view name = first_member(first);
  // torch.save writes <name>/data.pkl first; torch.jit.save <name>/data/0 or <name>/constants.pkl;
  // torch.export.save <name>/data/weights/weight_0, or <name>/archive_format.
  if (name.ends_with("/archive_format") || name.find("/data/weights/") != std::string_view::npos ||
      name.find("/data/constants/") != std::string_view::npos || name.ends_with("/data.pkl") ||
      name.ends_with("/constants.pkl") || name.ends_with("/version") ||
      name.ends_with("/.format_version") || name.ends_with("/data/0") ||
      name.ends_with("/constants/0"))
    return make_content(ForeignKind::kPytorch, "a PyTorch checkpoint", kOpenAsPytorch);
  if (name == "metadata.json" || name == "config.json" || name == "model.weights.h5")
    return make_content(ForeignKind::kProgram, "a Keras model", kSaveFromKeras);
  if (name.empty() || name.ends_with(".npy")) return std::nullopt;
  return make_content(ForeignKind::kZip, "a zip archive without arrays", kUnpack);
}

// The name of the first file in a tar archive, behind the records about it; "" if it is not there.
std::string_view first_in_tar(std::string_view text) {
  constexpr std::size_t kBlock = 512, kType = 156;
  if (text.size() <= kType || text[kType] != 'x') return text.substr(0, text.find('\0'));
  // One block of records, as tarfile writes them.
  text.remove_prefix(std::min(2 * kBlock, text.size()));
  return text.substr(0, text.find('\0'));
}

ForeignContent tar_content(std::string_view text) {
  const std::string_view name = first_in_tar(text);
  if (name == "sys_info" || name == "pickle" || name == "tensors" || name == "storages")
    return make_content(ForeignKind::kPytorch, "a PyTorch checkpoint (tar form)", kOpenAsPytorch);
  return make_content(ForeignKind::kArchive, "a tar archive", kUnpack);
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

// Whether it begins like a ModelProto: the version of the format (field 1), then the name of the
// program (field 2) or the graph (field 7), whose first field is a node.
bool is_onnx(ByteView first) {
  const auto probe = try_call([&] {
    ByteReader in(first);
    if (in.u8() != 0x08) return false;
    const std::uint8_t version = in.u8();
    if (version == 0 || version > 0x3f) return false;
    const std::uint8_t next = in.u8();
    const std::uint64_t length = in.varint(UINT32_MAX);
    if (next == 0x3a) return in.u8() == 0x0a;
    if (next != 0x12) return false;
    const std::string_view program = in.text(length);
    const std::uint8_t after = in.u8();
    const auto is_shown = [](char c) { return c >= ' ' && c <= '~'; };
    return std::all_of(program.begin(), program.end(), is_shown) &&
           (after == 0x1a || after == 0x22 || after == 0x28 || after == 0x32 || after == 0x3a);
  });
  return probe.ok() && probe.value();
}

// Whether all bytes are text; the last character may be cut off.
bool is_text(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0x7f || (byte < 0x20 && kSpace.find(c) == std::string_view::npos)) return false;
  }
  return text.size() - find_invalid_utf8(text) < 4 &&
         (text.size() == kForeignProbe || valid_utf8(text));
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

// The first line of a text, shortened: ' ("Entry not found")'.
std::string excerpt(std::string_view text) {
  std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  const bool is_whole = line.size() <= kShownText;
  line = line.substr(0, kShownText);
  line = line.substr(0, find_invalid_utf8(line));
  return fmt::format(" (\"{}{}\")", line, is_whole ? "" : "...");
}

std::optional<ForeignContent> text_content(std::string_view text) {
  if (!is_text(text)) return std::nullopt;
  if (text.starts_with(kUtf8Mark)) text.remove_prefix(kUtf8Mark.size());
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  if (text.empty()) return make_content(ForeignKind::kDownload, "blank", kDownloadAgain);
  const std::string small = to_lower(text);
  const bool is_markup = text.front() == '<';
  if (is_markup && (small.find("<html") != std::string::npos ||
                    small.find("<!doctype html") != std::string::npos ||
                    small.find("<head") != std::string::npos))
    return make_content(ForeignKind::kDownload, "a web page (HTML)", kDownloadAgain);
  if (is_markup)
    return make_content(ForeignKind::kDownload,
                        "an XML document, such as the error of an object store" + excerpt(text),
                        kDownloadAgain);
  if (text.front() == '{' || text.front() == '[')
    return make_content(ForeignKind::kJson, "JSON" + excerpt(text),
                        "if it is the error of a server, download the file again");
  return make_content(ForeignKind::kDownload, "text" + excerpt(text), kDownloadAgain);
}

}  // namespace

std::string ForeignContent::message() const {
  if (what.empty()) return advice;
  const std::string_view middle =
      kind == ForeignKind::kProgram   ? ", which Cairn does not read yet"
      : kind == ForeignKind::kPytorch ? ", not a file of this format"
      : kind == ForeignKind::kUnfinished || code() == Code::kUnimplemented ? ""
                                                                           : ", not a checkpoint";
  return fmt::format("is {}{}; {}", what, middle, advice);
}

bool begins_as_torch_legacy(std::string_view first) {
  // PyTorch's number 0x1950a86a20f9469cfc6c.
  constexpr std::string_view kText = "L119547037146038801333356L\n.";  // protocol 1
  constexpr std::string_view kBytes = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  constexpr std::size_t kProtocol = 2, kFrame = 9;
  if (first.starts_with(kText)) return true;
  if (!is_pickle(first)) return false;
  const bool is_framed = first[1] >= 4;
  const std::size_t at = is_framed ? kProtocol + kFrame : kProtocol;
  return first.size() > at && (!is_framed || first[kProtocol] == '\x95') &&
         first.substr(at).starts_with(kBytes);
}

std::optional<ForeignContent> foreign_content(ByteView first, std::uint64_t size) {
  const std::string_view text =
      as_text(first.first(std::min<std::size_t>(first.size(), kForeignProbe)));
  if (size == 0)
    return make_content(ForeignKind::kDownload, "empty (0 bytes)",
                        "the program that made it has written nothing; copy or download it again");
  if (is_lfs_pointer(text))
    return ForeignContent{ForeignKind::kDownload, "", std::string(kIsLfsPointer)};
  if (text.starts_with(kZip)) return zip_content(first);
  if (text.size() > kTarMark && text.substr(kTarMark).starts_with("ustar"))
    return tar_content(text);
  for (const Magic& magic : kMagic)
    if (text.size() > magic.offset && text.substr(magic.offset).starts_with(magic.bytes))
      return make_content(magic.kind, magic.what, magic.advice);
  if (is_hdf5(text))
    return make_content(ForeignKind::kProgram, "an HDF5 file, as Keras writes (.h5)",
                        kSaveFromKeras);
  if (begins_as_torch_legacy(text))
    return make_content(ForeignKind::kPytorch, "a PyTorch checkpoint (legacy format)",
                        kOpenAsPytorch);
  if (is_pickle(text))
    return make_content(
        ForeignKind::kProgram, "a Python pickle",
        "load it with the program that wrote it and save its arrays with numpy.savez");
  if (is_onnx(first))
    return make_content(ForeignKind::kProgram, "an ONNX model",
                        "read its weights with onnx.numpy_helper and save them with numpy.savez");
  if (text.find_first_not_of('\0') == std::string_view::npos)
    return make_content(
        ForeignKind::kDownload,
        size == text.size() ? fmt::format("{} zero bytes", size)
                            : fmt::format("zeros in its first {} bytes", text.size()),
        "the program that reserved its space has not filled it; copy or download it "
        "again");
  return text_content(text);
}

std::optional<ForeignContent> foreign_content(const File& file) {
  const std::uint64_t size = file.size();
  Bytes first(std::min(size, kForeignProbe));
  file.read_into(0, first);
  return foreign_content(first, size);
}

}  // namespace cairn::inline v0
