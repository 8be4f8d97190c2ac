// dump.cc -- prints raw structures as JSON; recognises them by their first bytes.
#include <cairn/formats/detect.h>
#include <cairn/inspect.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/base/json/json.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/file/pickled_file.h>
#include <cairn/formats/pytorch/file/tar_members.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/ocdbt/format/dump.h>
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/tools/inspect/pickle_json.h>
#include <cairn/tools/report/json_text.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kMaxDumped = std::uint64_t{1} << 30U;  // bytes of one structure
constexpr std::size_t kSniffed = pytorch::kTarBlock;           // first bytes that tell formats
constexpr std::string_view kNpyMagic = "\x93NUMPY";

// A part of a file.
struct Section {
  File file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] Bytes read(std::uint64_t at, std::uint64_t n) const {
    if (n > kMaxDumped)
      throw Error(
          Code::kInvalidArgument,
          std::to_string(n) + " bytes are too many for one structure; choose a range with --node");
    Bytes bytes(static_cast<std::size_t>(n));
    file.read_into(offset + at, bytes);
    return bytes;
  }
  // Reads an OCDBT object; checks it before allocating memory for it.
  [[nodiscard]] Bytes read_object() const {
    ocdbt::check_before_reading(
        length, [&](std::uint64_t at, MutableByteView out) { file.read_into(offset + at, out); });
    return read(0, length);
  }
  // Reads up to the first NUL byte, which text never contains, or a little further.
  [[nodiscard]] Bytes read_text() const {
    constexpr std::uint64_t kReadAtOnce = std::uint64_t{1} << 20U;
    Bytes text;
    while (text.size() < std::min(length, kMaxDumped)) {
      const Bytes block = read(text.size(), std::min(kReadAtOnce, length - text.size()));
      text.insert(text.end(), block.begin(), block.end());
      if (std::find(block.begin(), block.end(), std::byte{0}) != block.end()) break;
    }
    return text;
  }
};

File open_file(const FileTree& tree, const std::string& path) {
  if (!tree.is_folder(path)) return tree.open(path);
  if (tree.exists(path + "/manifest.ocdbt")) return tree.open(path + "/manifest.ocdbt");
  throw Error(Code::kInvalidArgument,
              path + ": is a directory without a manifest.ocdbt; give one of its files");
}

Section section_of(File file, const DumpRange& range) {
  Section section{std::move(file), range.offset, 0};
  const std::uint64_t size = section.file.size();
  if (range.offset > size || range.length.value_or(0) > size - range.offset)
    throw Error(Code::kOutOfRange, "the range at byte " + std::to_string(range.offset) +
                                       " is beyond the end of the file, which has " +
                                       std::to_string(size) + " bytes");
  section.length = range.length.value_or(size - range.offset);
  return section;
}

// Calls f with the bytes to show. Errors name the file; those of opening it name it already.
template <class F>
std::string with_section(const DumpRange& range, F&& f) {
  const std::string path = normal_path(range.file);
  const FileTree tree = tree_around(path, range.store);
  File file = open_file(tree, path);
  return with_context([&] { return range.file; },
                      [&] { return f(section_of(std::move(file), range), tree); });
}

std::string pretty(const Json& json) { return to_text(json, JsonStyle::kPretty) + "\n"; }

std::string dump_safetensors(const Section& section) {
  const std::uint64_t n =
      decode_safetensors_prefix(section.read(0, kSafetensorsPrefix), section.length);
  return pretty(parse_json(as_text(section.read(kSafetensorsPrefix, n))));
}

// The header of a .npy file is a Python dict as text.
std::string dump_npy(const Section& section) {
  const Bytes first = section.read(0, std::min<std::uint64_t>(section.length, 12));
  ByteReader in(first);
  in.take(kNpyMagic.size());
  const std::uint8_t major = in.u8();
  const std::uint8_t minor = in.u8();
  const std::uint64_t n = major == 1 ? in.u16() : in.u32();
  if (n > section.length - in.offset())
    ByteReader::fail("the header claims " + std::to_string(n) + " bytes", in.offset());
  const Bytes header = section.read(in.offset(), n);
  std::string text(as_text(header));
  text.erase(text.find_last_not_of(" \n") + 1);
  return pretty(
      JsonObject{{"version", JsonArray{int{major}, int{minor}}}, {"header", printable_text(text)}});
}

std::string type_text(const BundleEntry& entry) {
  const BundleType* type = bundle_type(entry.dtype);
  return type != nullptr ? std::string(type->name) : std::to_string(entry.dtype);
}

// The index of a TensorFlow checkpoint as stored, not as the reader interprets it: entries of
// slices have keys of their own.
std::string dump_bundle_index(const Section& section) {
  JsonObject header;
  JsonArray entries;
  read_sstable(
      section.length,
      [&](std::uint64_t at, MutableByteView out) {
        section.file.read_into(section.offset + at, out);
      },
      [&](std::string_view key, ByteView value) {
        if (key.empty()) {
          const BundleHeader parsed = parse_bundle_header(value);
          header = {{"shards", parsed.shards},
                    {"endianness", parsed.big_endian ? "big" : "little"},
                    {"producer", parsed.producer},
                    {"min_consumer", parsed.min_consumer}};
          return;
        }
        const BundleEntry entry = parse_bundle_entry(value);
        JsonArray slices;
        for (const TensorSlice& slice : entry.slices) slices.emplace_back(slice_text(slice));
        entries.push_back(JsonObject{{"key", text_json(key)},
                                     {"dtype", type_text(entry)},
                                     {"shape", shape_json(entry.shape)},
                                     {"shard", entry.shard},
                                     {"offset", entry.offset},
                                     {"size", entry.size},
                                     {"crc32c", std::uint64_t{entry.crc32c}},
                                     {"slices", std::move(slices)}});
      });
  return pretty(JsonObject{{"header", std::move(header)}, {"entries", std::move(entries)}});
}

// All pickles of a file of PyTorch. Nothing in them is executed.
std::string dump_pickles(const Section& section) {
  const PickledFile file = read_pickles(section.length, [&](std::uint64_t at, MutableByteView out) {
    section.file.read_into(section.offset + at, out);
  });
  JsonArray pickles;
  for (const FoundPickle& found : file.pickles) {
    JsonObject entry;
    if (file.form == PickledForm::kZip) {
      entry.emplace_back("member", text_json(found.member));
      entry.emplace_back("has_checksum", found.has_checksum);
    }
    if (file.form == PickledForm::kTar) entry.emplace_back("member", text_json(found.member));
    if (file.form == PickledForm::kLegacy || file.form == PickledForm::kTar)
      entry.emplace_back("offset", found.begin);
    const Json values = pickle_json(found.pickle);
    for (const auto& member : *values.as_object()) entry.push_back(member);
    pickles.emplace_back(std::move(entry));
  }
  return pretty(JsonObject{{"pickles", std::move(pickles)}});
}

bool looks_like_json(ByteView first) {
  const std::string_view text = as_text(first);
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && (text[at] == '{' || text[at] == '[');
}

std::string dump_section(const Section& section, const DumpRange& range, const FileTree& tree) {
  const Bytes first = section.read(0, std::min<std::uint64_t>(section.length, kSniffed));
  if (ocdbt::sniff_object(first)) return pretty(ocdbt::dump_object(section.read_object(), ""));
  if (as_text(first).starts_with(kNpyMagic)) return dump_npy(section);
  if (looks_like_safetensors(first)) return dump_safetensors(section);
  const std::string& path = section.file.path();
  const bool is_whole = range.offset == 0 && !range.length;
  if (is_whole && is_sstable(section.file)) return dump_bundle_index(section);
  if (looks_like_pickle(first) || looks_like_zip(first) || pytorch::looks_like_tar(first))
    return dump_pickles(section);
  if (looks_like_json(first)) return pretty(parse_json(as_text(section.read_text())));
  if (is_whole && detect_file(tree, path) == Format::kMsgpack) {
    const auto checkpoint = open_msgpack(tree, path, {});
    return tensors_json(*checkpoint, select_tensors(*checkpoint, {}));
  }
  throw Error(Code::kInvalidArgument,
              "unknown structure: expected an OCDBT manifest or node, a safetensors or .npy "
              "header, JSON, msgpack, a pickle or a file of PyTorch, or the index of a TensorFlow "
              "checkpoint; choose a part of a "
              "data file with --node FILE:OFFSET:LENGTH");
}

}  // namespace

std::string dump_file(const DumpRange& range) {
  return with_section(range, [&](const Section& section, const FileTree& tree) {
    return dump_section(section, range, tree);
  });
}

// Does not use the reader's decoder, which refuses a damaged index; this shows the damage.
std::string dump_shard_index(const DumpRange& range, std::uint64_t chunks) {
  return with_section(range, [&](const Section& section, const FileTree& /*tree*/) {
    constexpr std::uint64_t kAbsent = ~std::uint64_t{0};
    if (section.length < 4 || chunks > (section.length - 4) / 16)
      throw Error(Code::kDataLoss, "an index of " + std::to_string(chunks) +
                                       " chunks does not fit into " +
                                       std::to_string(section.length) + " bytes");
    const Bytes index = section.read(section.length - 16 * chunks - 4, 16 * chunks + 4);
    ByteReader reader(index);
    JsonArray entries;
    for (std::uint64_t i = 0; i < chunks; ++i) {
      const std::uint64_t offset = reader.u64();
      const std::uint64_t nbytes = reader.u64();
      entries.push_back(offset == kAbsent && nbytes == kAbsent
                            ? Json()
                            : Json(JsonObject{{"offset", offset}, {"nbytes", nbytes}}));
    }
    const bool intact = reader.u32() == crc32c(ByteView(index).first(16 * chunks));
    return pretty(
        JsonObject{{"crc32c", intact ? "good" : "wrong"}, {"chunks", std::move(entries)}});
  });
}

}  // namespace cairn::inline v0
