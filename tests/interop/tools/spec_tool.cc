// spec_tool.cc -- makes TensorStore specs as a list of jobs on stdin says; for tests that compare
// them with the real packages'.
//
// In:  [{"read": {options}} | {"write": {options}} | {"kvstore": {options}} | {"context":
// {options}} | {"choose": {options}} |
//       {"remote": text} | {"sharding": [directory, name]} |
//       {"array": {"spec": {}, "open": true, ..., "steps": [{"write"|"read": path, "origin": [],
//       "shape": []}]}} |
//       {"json": {"spec": {}, "write": value}} |
//       {"kv": {"spec": {}, "steps": [{"write": [key, text]} | {"remove": key} | {"remove_range":
//       [first, last or null]} | {"replace": [key, text or null, text]} | {"list": prefix}]}} |
//       {"transaction": {"spec": {}, "times": 1, "steps": [{"write"} | {"remove"} |
//       {"remove_range"} | {"require": [key, text or null]}]}} |
//       {"is_ocdbt": path} |
//       {"cast_serialize": {"spec": {}, "dtype": name, "target_dtype": name}} |
//       {"cast_deserialize": {"spec": {}, "target_dtype": name}} |
//       {"chunk_bytes": {"write_shape": [], "dtype": name, "chunk_byte_size": n,
//       "target_data_file_size": n, "kvstore": {}}}]
// Out: for each job what it gives, or {"error": text}
#include <cairn/array/box.h>
#include <cairn/base/json/json.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/orbax/array_spec.h>
#include <cairn/orbax/open.h>
#include <cairn/storage/tensorstore_spec.h>

#include <string>

#include "tests/interop/tools/answer_jobs.h"

namespace {

using namespace cairn;

std::optional<std::string> text(const Json& job, const char* member) {
  const Json* value = job.find(member);
  return value && value->as_string() ? std::optional(*value->as_string()) : std::nullopt;
}

std::optional<std::int64_t> number(const Json& job, const char* member) {
  const Json* value = job.find(member);
  return value ? value->as_int64() : std::nullopt;
}

bool flag(const Json& job, const char* member, bool otherwise) {
  const Json* value = job.find(member);
  return value && value->as_bool() ? *value->as_bool() : otherwise;
}

Shape integers(const Json& job, const char* member) {
  Shape values;
  if (const Json* list = job.find(member))
    for (const Json& item : *list->as_array()) values.push_back(item.as_int64().value());
  return values;
}

std::optional<DType> dtype(const Json& job, const char* member) {
  const auto name = text(job, member);
  return name ? dtype_from_name(*name) : std::nullopt;
}

Json list(const Shape& shape) {
  Json out = JsonArray();
  for (const std::int64_t n : shape) out.push_back(n);
  return out;
}

template <class T>
Json optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json read_spec(const Json& job) {
  return parse_json(
      ArrayReadSpec({.directory = text(job, "directory").value(),
                     .relative_array_filename = text(job, "name").value(),
                     .use_zarr3 = flag(job, "use_zarr3", false),
                     .use_ocdbt = flag(job, "use_ocdbt", true),
                     .metadata_key = text(job, "metadata_key"),
                     .raise_array_data_missing_error = flag(job, "raise_missing", true),
                     .target_dtype = dtype(job, "target_dtype")})
          .json());
}

Json described(const ArrayMetadata& array) {
  Json out;
  out.set("param_name", array.param_name);
  out.set("shape", list(array.shape));
  out.set("dtype", dtype_name(array.dtype));
  out.set("write_shape", list(array.write_shape));
  out.set("chunk_shape", list(array.chunk_shape));
  out.set("use_ocdbt", array.use_ocdbt);
  out.set("use_zarr3", array.use_zarr3);
  out.set("ext_metadata", array.ext_metadata ? parse_json(*array.ext_metadata) : Json());
  out.set("compression_algorithm", array.compression_algorithm);
  out.set("compression_level", optional(array.compression_level));
  return out;
}

Json write_spec(const Json& job) {
  const Json* ext = job.find("ext_metadata");
  const ArrayWriteSpec spec(
      {.directory = text(job, "directory").value(),
       .relative_array_filename = text(job, "name").value(),
       .global_shape = integers(job, "global_shape"),
       .write_shape = integers(job, "write_shape"),
       .dtype = dtype(job, "dtype").value(),
       .target_dtype = dtype(job, "target_dtype"),
       .chunk_byte_size = number(job, "chunk_byte_size"),
       .shard_axes = integers(job, "shard_axes"),
       .use_compression = flag(job, "use_compression", true),
       .use_zarr3 = flag(job, "use_zarr3", false),
       .use_ocdbt = flag(job, "use_ocdbt", true),
       .ocdbt_target_data_file_size = number(job, "target_data_file_size"),
       .process_id = text(job, "process_id"),
       .metadata_key = text(job, "metadata_key"),
       .replica_separate_folder = flag(job, "replica", false),
       .ext_metadata = ext && !ext->is_null() ? std::optional(to_text(*ext)) : std::nullopt,
       .store_ocdbt_metadata_and_values_separately = flag(job, "separately", false),
       .temporary_metadata = text(job, "temporary_metadata")});
  Json out;
  out.set("json", parse_json(spec.json()));
  out.set("metadata", described(spec.metadata()));
  return out;
}

Json kvstore_spec(const Json& job) {
  KvStoreSpecOptions options{.directory = text(job, "directory").value(),
                             .name = text(job, "name"),
                             .use_ocdbt = flag(job, "use_ocdbt", true),
                             .temporary_metadata = text(job, "temporary_metadata")};
  if (const auto folder = text(job, "process")) options.process = OcdbtProcessSpec::parse(*folder);
  if (const auto mode = text(job, "mode"))
    options.write = OcdbtWriteOptions{
        .mode = *mode == "write"   ? OcdbtWriteMode::kWrite
                : *mode == "merge" ? OcdbtWriteMode::kMerge
                                   : OcdbtWriteMode::kCommitTemporary,
        .target_data_file_size = number(job, "target_data_file_size"),
        .store_ocdbt_metadata_and_values_separately = flag(job, "separately", false)};
  return parse_json(build_kvstore_tspec(options));
}

Json context(const Json& job) {
  return parse_json(get_ts_context({.use_ocdbt = flag(job, "use_ocdbt", true),
                                    .file_io_concurrency_limit = number(job, "file_io"),
                                    .data_copy_concurrency_limit = number(job, "data_copy")}));
}

Json choose(const Json& job) {
  return list(choose_chunk_shape({.global_shape = integers(job, "global_shape"),
                                  .write_shape = integers(job, "write_shape"),
                                  .dtype = dtype(job, "dtype").value(),
                                  .target_byte_size = number(job, "target_byte_size"),
                                  .shard_axes = integers(job, "shard_axes")}));
}

std::optional<bool> said(const Json& job, const char* member) {
  const Json* value = job.find(member);
  return value && value->as_bool() ? std::optional(*value->as_bool()) : std::nullopt;
}

void run_step(SpecArray& array, const Json& step) {
  const SpecArrayInfo& info = array.info();
  const Box box{.origin = integers(step, "origin"), .shape = integers(step, "shape")};
  if (const auto path = text(step, "write")) {
    const Bytes bytes = read_file(*path);
    return array.write(box, make_view(bytes, info.dtype, box.shape));
  }
  Array out = Array::allocate(info.dtype, info.element_size, box.shape);
  array.read(box, out.mutable_view());
  AtomicFile file(text(step, "read").value());
  file.append(out.bytes());
  file.commit(Durability::kUnsynced);
}

Json open_array(const Json& job) {
  SpecArray array = open_array_spec(to_text(*job.find("spec")),
                                    {.open = said(job, "open"),
                                     .create = said(job, "create"),
                                     .delete_existing = said(job, "delete_existing"),
                                     .assume_metadata = said(job, "assume_metadata")});
  if (const Json* steps = job.find("steps"))
    for (const Json& step : *steps->as_array()) run_step(array, step);
  const SpecArrayInfo& info = array.info();
  Json out;
  out.set("driver", info.driver);
  out.set("dtype", info.dtype_name);
  out.set("stored_dtype", dtype_name(info.stored_dtype));
  out.set("shape", list(info.shape));
  out.set("chunk_shape", list(info.chunk_shape));
  out.set("read_chunk_shape", list(info.read_chunk_shape));
  out.set("metadata", info.metadata);
  return out;
}

Json open_json(const Json& job) {
  SpecJson value = open_json_spec(to_text(*job.find("spec")));
  if (const Json* written = job.find("write")) value.write(to_text(*written));
  return parse_json(value.read());
}

const std::string& item(const Json& list, std::size_t i) {
  return *list.as_array()->at(i).as_string();
}

// Bytes of the text, or none for null.
std::optional<ByteView> value_item(const Json& list, std::size_t i) {
  const std::string* value = list.as_array()->at(i).as_string();
  return value ? std::optional(as_bytes(*value)) : std::nullopt;
}

KeyRange range_of(const Json& list) {
  const std::string* last = list.as_array()->at(1).as_string();
  return {.first = item(list, 0), .last = last ? std::optional(*last) : std::nullopt};
}

Json listed(const KvStore& store, const std::string& prefix) {
  Json out = JsonArray();
  for (const ListEntry& entry : store.list(prefix)) {
    const auto value = store.read(entry.key, {});
    out.push_back(JsonArray{entry.key, std::string(as_text(value.value()))});
  }
  return out;
}

Json use_kv(const Json& job) {
  const StorePtr store = open_kv_store(to_text(*job.find("spec")));
  Json out = JsonArray();
  for (const Json& step : *job.find("steps")->as_array()) {
    if (const Json* pair = step.find("write")) {
      store->write(item(*pair, 0), *value_item(*pair, 1));
    } else if (const Json* key = step.find("remove")) {
      store->remove(*key->as_string());
    } else if (const Json* range = step.find("remove_range")) {
      remove_range(*store, range_of(*range));
    } else if (const Json* swap = step.find("replace")) {
      out.push_back(store->replace_if(item(*swap, 0), value_item(*swap, 1), *value_item(*swap, 2)));
    } else {
      out.push_back(listed(*store, *step.find("list")->as_string()));
    }
  }
  return out;
}

Json use_transaction(const Json& job) {
  OcdbtCommit commit;
  for (std::int64_t n = number(job, "times").value_or(1); n > 0; --n) {
    OcdbtTransaction changes = open_kv_transaction(to_text(*job.find("spec")));
    for (const Json& step : *job.find("steps")->as_array()) {
      if (const Json* pair = step.find("write"))
        changes.write(item(*pair, 0), *value_item(*pair, 1));
      else if (const Json* key = step.find("remove"))
        changes.remove(*key->as_string());
      else if (const Json* range = step.find("remove_range"))
        changes.remove_range(range_of(*range));
      else
        changes.require(item(*step.find("require"), 0), value_item(*step.find("require"), 1));
    }
    commit = changes.commit();
  }
  return JsonArray{static_cast<std::int64_t>(commit.generation),
                   static_cast<std::int64_t>(commit.num_keys)};
}

Json chunk_bytes(const Json& job) {
  const Json* kvstore = job.find("kvstore");
  const bool has_store = kvstore && !kvstore->is_null();
  return optional(calculate_chunk_byte_size(
      {.write_shape = integers(job, "write_shape"),
       .dtype = dtype(job, "dtype").value(),
       .chunk_byte_size = number(job, "chunk_byte_size"),
       .ocdbt_target_data_file_size = number(job, "target_data_file_size"),
       .kvstore_spec = has_store ? std::optional(to_text(*kvstore)) : std::nullopt}));
}

Json cast_serialize(const Json& job) {
  return parse_json(get_cast_tspec_serialize(
      to_text(*job.find("spec")), dtype(job, "dtype").value(), dtype(job, "target_dtype")));
}

Json cast_deserialize(const Json& job) {
  return parse_json(
      get_cast_tspec_deserialize(to_text(*job.find("spec")), dtype(job, "target_dtype")));
}

Json answer(const Json& job) {
  if (const Json* options = job.find("kv")) return use_kv(*options);
  if (const Json* options = job.find("transaction")) return use_transaction(*options);
  if (const Json* path = job.find("is_ocdbt")) return is_ocdbt_checkpoint(*path->as_string());
  if (const Json* options = job.find("chunk_bytes")) return chunk_bytes(*options);
  if (const Json* options = job.find("cast_serialize")) return cast_serialize(*options);
  if (const Json* options = job.find("cast_deserialize")) return cast_deserialize(*options);
  if (const Json* options = job.find("array")) return open_array(*options);
  if (const Json* options = job.find("json")) return open_json(*options);
  if (const Json* options = job.find("read")) return read_spec(*options);
  if (const Json* options = job.find("write")) return write_spec(*options);
  if (const Json* options = job.find("kvstore")) return kvstore_spec(*options);
  if (const Json* options = job.find("context")) return context(*options);
  if (const Json* options = job.find("choose")) return choose(*options);
  if (const Json* spec = job.find("remote")) return is_remote_storage(*spec->as_string());
  const JsonArray& names = *job.find("sharding")->as_array();
  return parse_json(get_sharding_tensorstore_spec(*names[0].as_string(), *names[1].as_string()));
}

}  // namespace

int main() { cairn::testing::answer_list(answer); }
