// convert.cc -- converts one checkpoint to another format as a stream. The writer requests pieces,
// the reader fills a batch of them as one plan, and memory stays within the budget.
#include <cairn/convert.h>
#include <cairn/npz.h>
#include <cairn/safetensors.h>
#include <cairn/tensor_source.h>

#include <cairn/array/box.h>
#include <cairn/base/executor.h>
#include <cairn/io/directory.h>
#include <cairn/io/output_file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/tools/convert/kept_types.h>
#include <cairn/tools/convert/plan.h>
#include <cairn/tools/convert/target_format.h>
#include <cairn/tools/convert/to_msgpack.h>
#include <cairn/tools/convert/to_orbax.h>
#include <cairn/tools/convert/to_tensorflow.h>
#include <cairn/tools/convert/to_torch.h>
#include <cairn/tools/convert/write_plan.h>
#include <cairn/tools/report/json_text.h>
#include <cairn/tools/source/consistency.h>
#include <cairn/tools/source/derived_checkpoint.h>
#include <cairn/tools/source/source_files.h>
#include <cairn/tools/source/stream.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

// A piece whose elements change their type: it is read into `from`, a part of the scratch memory,
// and then cast.
struct Cast {
  ByteView from;
  DType from_type;
  MutableByteView to;
  DType to_type;
};

class Fetcher {
 public:
  Fetcher(const Checkpoint& source, const ConvertPlan& plan, Executor& executor)
      : source_(source), plan_(plan), executor_(executor) {}

  void fetch(std::span<const TensorPiece> pieces) {
    RunReader reader(source_);
    std::vector<Cast> casts;
    reserve_scratch(pieces);
    std::size_t used = 0;
    for (const TensorPiece& piece : pieces) {
      const std::size_t index = plan_.indices[piece.tensor];
      const TensorInfo& tensor = source_.tensors()[index];
      const DType to = plan_.targets[piece.tensor].dtype;
      const auto begin = static_cast<std::int64_t>(
          piece.offset / (to == tensor.dtype ? tensor.element_size : dtype_size(to)));
      MutableByteView out = piece.out;
      if (to != tensor.dtype) {
        out = MutableByteView(scratch_.data() + used, source_bytes(piece));
        add_casts({out, tensor.dtype, piece.out, to}, casts);
        used += padded_size(out.size());
      }
      reader.add(index, piece.part != nullptr ? *piece.part : Box::whole(tensor.shape), begin, out);
    }
    reader.read();
    executor_.for_each(casts.size(), [&](std::size_t i) {
      const Cast& c = casts[i];
      const auto n = static_cast<std::int64_t>(c.to.size() / dtype_size(c.to_type));
      cast_elements(make_view(c.from, c.from_type, {n}), make_view(c.to, c.to_type, {n}));
    });
  }

 private:
  // Splits a cast into blocks small enough to keep all workers busy.
  static void add_casts(const Cast& whole, std::vector<Cast>& casts) {
    constexpr std::size_t kBlock = std::size_t{1} << 20U;  // elements
    const std::size_t from_size = dtype_size(whole.from_type);
    const std::size_t to_size = dtype_size(whole.to_type);
    const std::size_t count = whole.to.size() / to_size;
    for (std::size_t begin = 0; begin < count; begin += kBlock) {
      const std::size_t n = std::min(kBlock, count - begin);
      casts.push_back({whole.from.subspan(begin * from_size, n * from_size), whole.from_type,
                       whole.to.subspan(begin * to_size, n * to_size), whole.to_type});
    }
  }

  [[nodiscard]] std::size_t source_bytes(const TensorPiece& piece) const {
    return piece.out.size() / dtype_size(plan_.targets[piece.tensor].dtype) *
           source_.tensors()[plan_.indices[piece.tensor]].element_size;
  }

  void reserve_scratch(std::span<const TensorPiece> pieces) {
    std::size_t size = 0;
    for (const TensorPiece& piece : pieces)
      if (plan_.targets[piece.tensor].dtype != source_.tensors()[plan_.indices[piece.tensor]].dtype)
        size += padded_size(source_bytes(piece));
    if (size > scratch_.size()) scratch_ = Buffer(size);
  }

  const Checkpoint& source_;
  const ConvertPlan& plan_;
  Executor& executor_;
  Buffer scratch_;
};

// Adds the options to the consistency check, so that processes with different options do not write
// one file.
void add_options(const ConvertOptions& options, distributed::ConsistencyCheck& check) {
  const auto add = [&](const char* name, const auto& value) {
    check.add(name, option_text(value));
  };
  add("include", options.include);
  add("exclude", options.exclude);
  add("rename", options.rename);
  add("nest", options.nest);
  add("metadata", options.safetensors.metadata);
  add("beside", options.safetensors.beside);
  check.add("dtype", options.dtype ? std::string(dtype_name(*options.dtype)) : "none");
  add("skip_unsupported", options.skip_unsupported);
  add("replace", options.if_exists == IfExists::kReplace);
  add("dry_run", options.dry_run);
  add("max_shard_bytes", options.safetensors.max_shard_bytes);
  check.add("msgpack_dialect", options.msgpack.dialect
                                   ? std::to_string(static_cast<int>(*options.msgpack.dialect))
                                   : "none");
  add("plain_names", options.tensorflow.plain_names);
  add("name_latest", options.tensorflow.name_latest);
  add("tensorflow.max_shard_bytes", options.tensorflow.max_shard_bytes);
  add("dcp.chunk_bytes", options.dcp.chunk_bytes);
  add_orbax_options(options.orbax, check);
}

void add_values(const Checkpoint& source, const std::string& target, const ConvertPlan& plan,
                const ConvertOptions& options, ToolConsistencyCheck& check) {
  check.options.add("the target",
                    is_store_url(target) ? normal_path(target) : absolute_path(target));
  check.options.add("format", format_text(plan.report.format));
  // The memory determines which parts of files each process writes. Orbax checkpoints use the least
  // memory of all processes, so there it may differ.
  if (!is_orbax_format(plan.report.format))
    check.options.add("memory", std::to_string(options.resources.memory));
  add_options(options, check.options);
  std::vector<std::string> names;  // as rename_fn has made them
  for (const TensorSource& tensor : plan.targets) names.push_back(tensor.name);
  check.options.add("names", option_text(names));
  add_opened(source, "", check.opened);
}

bool is_single_file(TargetFormat format, const ConvertOptions& options) {
  return format == TargetFormat::kNpz || format == TargetFormat::kMsgpack ||
         format == TargetFormat::kTorch ||
         (format == TargetFormat::kSafetensors && !options.safetensors.max_shard_bytes);
}

// A new file may replace the whole source if the user named it as the target, but not one of
// several source files.
void check_replaceable(const Checkpoint& source, const std::string& target) {
  if (!is_store_url(target)) check_replaceable_file(target);
  if (role_of_file(source, target) == FileRole::kPart)
    throw Error(Code::kAlreadyExists,
                target + ": is a file of the source checkpoint, so Cairn does not replace it");
}

// Adds entries; those with a known key replace its value.
void set_metadata(const std::vector<std::pair<std::string, std::string>>& entries,
                  std::vector<std::pair<std::string, std::string>>& metadata) {
  for (const auto& [key, value] : entries) {
    const auto same = [&, wanted = std::string_view(key)](const auto& entry) {
      return entry.first == wanted;
    };
    if (const auto known = std::find_if(metadata.begin(), metadata.end(), same);
        known != metadata.end())
      known->second = value;
    else
      metadata.emplace_back(key, value);
  }
}

void write_as_npz(const ConvertPlan& plan, const std::string& target, const FetchFn& fetch,
                  const ConvertOptions& options) {
  NpzWriteOptions write;
  write.if_exists = options.if_exists;
  write.store = options.store;
  write.multiprocessing = options.multiprocessing;
  write.resources = {.threads = options.resources.threads, .memory = plan.memory};
  write.progress = options.progress;
  write_npz(target, plan.targets, fetch, write);
}

std::vector<std::string> write_as_safetensors(const PlannedSource& from, const std::string& target,
                                              const FetchFn& fetch, const ConvertOptions& options) {
  SafetensorsWriteOptions write;
  write.metadata = text_metadata(from.source.info());
  set_metadata(options.safetensors.metadata, write.metadata);
  write.beside = options.safetensors.beside;
  write.if_exists = options.if_exists;
  write.store = options.store;
  write.multiprocessing = options.multiprocessing;
  write.max_shard_bytes = options.safetensors.max_shard_bytes;
  write.resources = {.threads = options.resources.threads, .memory = from.plan.memory};
  write.progress = options.progress;
  return write_safetensors(target, from.plan.targets, fetch, write);
}

// Writes a format that is not Orbax. Returns the paths of the files.
std::vector<std::string> write_files(const PlannedSource& from, const std::string& target,
                                     const FetchFn& fetch, const ConvertOptions& options) {
  switch (from.plan.report.format) {
    case TargetFormat::kTensorFlow:
      return write_as_tensorflow(from, target, fetch, options);
    case TargetFormat::kSafetensors:
      return write_as_safetensors(from, target, fetch, options);
    case TargetFormat::kMsgpack:
      write_as_msgpack(from, target, fetch, options);
      return {target};
    case TargetFormat::kTorch:
      write_as_torch(from, target, fetch, options);
      return {target};
    case TargetFormat::kDcp:
      write_as_dcp(from, target, fetch, options);
      return {target};
    default:
      write_as_npz(from.plan, target, fetch, options);
      return {target};
  }
}

// Adds what the rules of the source, and of the sources it is made of, have used and rounded.
void add_rules(const Checkpoint& source, ConvertReport& report) {
  const auto* derived = dynamic_cast<const DerivedCheckpoint*>(&source);
  if (derived == nullptr) return;
  for (TransformValue& value : derived->values()) report.values.push_back(std::move(value));
  for (std::string& name : derived->unused()) report.unused.push_back(std::move(name));
  for (InexactLeaves& leaves : derived->inexact()) report.inexact.push_back(std::move(leaves));
  add_rules(derived->source(), report);
  for (const Checkpoint* other : derived->other_sources()) add_rules(*other, report);
}

JsonArray values_json(const std::vector<TransformValue>& values) {
  JsonArray out;
  for (const TransformValue& value : values)
    out.push_back(JsonObject{{"name", text_json(value.name)},
                             {"value", text_json(value.text)},
                             {"origin", value.origin}});
  return out;
}

JsonArray inexact_json(const std::vector<InexactLeaves>& found) {
  JsonArray out;
  for (const InexactLeaves& leaves : found)
    out.push_back(JsonObject{{"rule", leaves.rule},
                             {"name", text_json(leaves.name)},
                             {"elements", leaves.elements},
                             {"inexact", leaves.inexact}});
  return out;
}

}  // namespace

void write_plan(const Checkpoint& source, ConvertPlan& plan, const std::string& target,
                const ConvertOptions& options) {
  if (const auto* derived = dynamic_cast<const DerivedCheckpoint*>(&source))
    derived->expect_reads(plan.indices);
  if (is_orbax_format(plan.report.format)) {
    plan.report.compression = write_orbax(source, plan, target, options);
    plan.report.files = {target};
    return;
  }
  const Workers workers(options.resources.threads);
  Fetcher fetcher(source, plan, workers.executor());
  const FetchFn fetch = [&](std::span<const TensorPiece> pieces) { fetcher.fetch(pieces); };
  plan.report.files = write_files({source, plan}, target, fetch, options);
}

MemoryShares divide_memory(std::uint64_t total, bool transforms) {
  constexpr std::uint64_t kLeast = std::uint64_t{64} << 20U;
  const std::uint64_t most = std::max(total, kLeast);
  const std::uint64_t work = most / 2;
  const std::uint64_t transforming = transforms ? work / 2 : 0;
  return {.reading = most / 4, .transforming = transforming, .writing = work - transforming};
}

ConvertReport convert(const Checkpoint& source, const std::string& target,
                      const ConvertOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  ConvertPlan plan;
  check_consistency(
      group, "convert: plan",
      [&] {
        plan = plan_conversion(source, target, options);
        if (options.if_exists == IfExists::kReplace && is_single_file(plan.report.format, options))
          check_replaceable(source, target);
        if (!options.dry_run) check_capacity(source, target, plan, options.orbax.compression);
      },
      [&](ToolConsistencyCheck& check) { add_values(source, target, plan, options, check); });
  if (!options.dry_run) write_plan(source, plan, target, options);
  add_rules(source, plan.report);
  return std::move(plan.report);
}

std::string convert_json(const ConvertReport& report) {
  JsonArray renamed;
  for (const auto& [from, to] : report.renamed)
    renamed.push_back(JsonObject{{"from", text_json(from)}, {"to", text_json(to)}});
  const Json out =
      JsonObject{{"format", format_text(report.format)},
                 {"files", strings_json(report.files)},
                 {"tensors", report.tensors},
                 {"bytes", report.bytes},
                 {"cast", report.cast},
                 {"dequantized", dequantized_json(report.dequantized)},
                 {"taken_first", report.taken_first ? strings_json(*report.taken_first) : Json()},
                 {"values", values_json(report.values)},
                 {"unused", strings_json(report.unused)},
                 {"inexact", inexact_json(report.inexact)},
                 {"scalars", strings_json(report.scalars)},
                 {"renamed", std::move(renamed)},
                 {"skipped", reasons_json(report.skipped, "name")},
                 {"items", strings_json(report.items)},
                 {"left_out", reasons_json(report.left_out, "item")},
                 {"compression", compression_json(report.compression)}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
