// zarr_writer.cc -- writes arrays as a list of jobs on stdin says; for tests that then read them
// with the real packages.
//
// In:  [{"dir": folder, "name": "a", "metadata": text | "new": {...}, "compression": "auto",
// "level": 3, "fill": "skip",
//        "threads": 2, "budget": bytes, "parts": [{"origin": [..], "shape": [..], "dtype":
//        "float32", "file": path,
//        "offset": 0, "strides": [..]}]} | {"choose": {"shape": [..], "write_shape": [..], "size":
//        4, "bytes": n, "axes": [..]}}]
// Out: for each job the metadata text, the chosen shape, or {"error": text}
#include <cairn/array/box.h>
#include <cairn/base/json/json.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/write/write_array.h>

#include <map>
#include <string>

#include "tests/interop/tools/answer_jobs.h"

namespace {

using namespace cairn;
using namespace cairn::zarr;

Shape integers(const Json* list) {
  Shape values;
  if (list)
    for (const Json& item : *list->as_array()) values.push_back(item.as_int64().value());
  return values;
}

std::string text(const Json& job, const char* member, const char* otherwise) {
  const Json* value = job.find(member);
  return value ? *value->as_string() : otherwise;
}

std::int64_t number(const Json& job, const char* member, std::int64_t otherwise) {
  const Json* value = job.find(member);
  return value && !value->is_null() ? value->as_int64().value() : otherwise;
}

Compression compression_of(const Json& job) {
  const std::string method = text(job, "compression", "auto");
  const int level = static_cast<int>(number(job, "level", 1));
  if (method == "none") return Compression::kNone;
  if (method == "smallest") return Compression::kSmallest;
  if (method == "zstd") return Compression::zstd(level);
  if (method == "blosc") return Compression::blosc(level);
  return Compression::kAuto;
}

ArrayMetadata metadata_of(const Json& job) {
  if (const Json* stored = job.find("metadata")) {
    const std::string& json = *stored->as_string();
    return json.find("\"zarr_format\":3") == std::string::npos ? parse_zarray(json)
                                                               : parse_zarr_json(json);
  }
  const Json& spec = *job.find("new");
  const auto dtype = dtype_from_name(text(spec, "dtype", ""));
  const Json* crc = spec.find("crc32c");
  return make_metadata({.zarr_format = static_cast<int>(number(spec, "zarr_format", 2)),
                        .shape = integers(spec.find("shape")),
                        .chunk_shape = integers(spec.find("chunks")),
                        .dtype = dtype.value(),
                        .compression = compression_of(job),
                        .inner_chunk_shape = integers(spec.find("inner")),
                        .crc32c = crc && *crc->as_bool()});
}

// Parts borrow from files that stay in memory.
std::vector<ArrayPart> parts_of(const Json& job, std::map<std::string, Bytes>& files) {
  std::vector<ArrayPart> parts;
  for (const Json& part : *job.find("parts")->as_array()) {
    const std::string path = text(part, "file", "");
    const Bytes& bytes = files.try_emplace(path, read_file(path)).first->second;
    const DType dtype = dtype_from_name(text(part, "dtype", "")).value();
    const Box box{.origin = integers(part.find("origin")), .shape = integers(part.find("shape"))};
    const Json* strides = part.find("strides");
    parts.push_back({.box = box,
                     .from = {.data = bytes.data() + number(part, "offset", 0),
                              .dtype = dtype,
                              .element_size = dtype_size(dtype),
                              .shape = box.shape,
                              .strides = strides ? integers(strides)
                                                 : c_strides(box.shape, dtype_size(dtype))}});
  }
  return parts;
}

Json write(const Json& job) {
  const StorePtr store = open_file_store(text(job, "dir", ""));
  const auto metadata = std::make_shared<const ArrayMetadata>(metadata_of(job));
  const std::string name = text(job, "name", "");
  std::string json = metadata_text(*metadata);
  std::map<std::string, Bytes> files;
  ArrayWrite write{.array = ZarrArray(store, name, metadata),
                   .parts = parts_of(job, files),
                   .label = name,
                   .encode = encode_options(compression_of(job))};
  if (job.find("metadata") && text(job, "compression", "") != "auto")
    write.encode.zstd_effort = EncodeOptions::Effort::kAsInMetadata;
  if (text(job, "fill", "store") == "skip")
    write.encode.fill_chunks = EncodeOptions::FillChunks::kSkip;
  if (text(job, "checksum", "always") == "metadata")
    write.encode.zstd_checksum = EncodeOptions::Checksum::kAsInMetadata;
  Executor executor(static_cast<std::size_t>(number(job, "threads", 2)));
  ByteBudget budget(static_cast<std::uint64_t>(number(job, "budget", 1 << 30)));
  StoreSink sink(store);
  sink.write(ZarrArray::metadata_key(name, metadata->zarr_format),
             std::vector<ByteView>{as_bytes(json)});
  write_boxes(std::span(&write, 1), sink, {.executor = &executor, .budget = &budget});
  return json;
}

Json choose(const Json& job) {
  ChunkTarget target;
  if (const Json* bytes = job.find("bytes"); bytes && !bytes->is_null())
    target.bytes = bytes->as_int64();
  target.shard_axes = integers(job.find("axes"));
  const Shape chosen =
      choose_chunk_shape(integers(job.find("shape")), integers(job.find("write_shape")),
                         static_cast<std::size_t>(number(job, "size", 1)), target);
  Json list = JsonArray();
  for (const std::int64_t extent : chosen) list.push_back(extent);
  return list;
}

}  // namespace

int main() {
  cairn::testing::answer_list([](const Json& job) {
    const Json* question = job.find("choose");
    return question ? choose(*question) : write(job);
  });
}
