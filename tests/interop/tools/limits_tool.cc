// limits_tool.cc -- saves and restores that test_limits.py compares with Orbax's: what happens to
// host arrays that change while they are saved, and how much memory is used. Reads a list of
// jobs and writes the list of answers.
//
// {"op": "changed", "dir": folder, "deepcopy": bool}: begins to save the host array `w` in the
//   background, changes its element 1 from 2 to 7, and only then lets the writing begin -> null
// {"op": "save_peak", "dir": folder, "shards": n, "shard_bytes": n, "save_concurrent_bytes": n}:
//   saves `w`, an array of int8 over n devices that is copied from them when it is needed
//   -> {"peak": bytes}: how much the resident memory grew at most
// {"op": "restore_peak", "dir": folder, "shards": n, "restore_concurrent_bytes": n}: restores `w`
//   over n devices, as int8 -> {"peak": bytes}, the array included
// {"op": "save_large", "dir": folder, "shard_bytes": n}: with the default limits, saves an array
//   whose elements cannot be had -> null
// {"op": "restore_large", "dir": folder}: with the default limits, restores `w` to one device
//   -> null
#include <cairn/base/json/json.h>
#include <cairn/orbax/item_storage.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/interop/tools/answer_jobs.h"

namespace {

using namespace cairn;

std::int64_t number(const Json& job, const char* name) {
  return job.find(name)->as_int64().value();
}
const std::string& folder(const Json& job) { return *job.find("dir")->as_string(); }

// ---- a host array that changes ----

// A host array whose writing waits.
class WaitingHandler : public NumpyHandler {
 public:
  WaitingHandler(bool deepcopy, std::shared_future<void> ready)
      : NumpyHandler(Options{.metadata_key = {}, .deepcopy_host_arrays = deepcopy}),
        ready_(std::move(ready)) {}

  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override {
    // An array that is fetched, and not before the other one may be written.
    StoreArray gate;
    gate.name = "gate";
    gate.dtype = gate.source_dtype = DType::kInt8;
    gate.shape = {1};
    gate.copy = [ready = ready_](const Box&, const MutableArrayView& out) {
      ready.wait();
      *out.data = std::byte{0};
    };
    infos[0].writer->add_array(gate);
    return NumpyHandler::serialize(values, infos, args);
  }

 private:
  std::shared_future<void> ready_;
};

Json changed(const Json& job) {
  std::promise<void> ready;
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(Array),
                std::make_shared<WaitingHandler>(*job.find("deepcopy")->as_bool(),
                                                 ready.get_future().share()),
                {nullptr, true});
  PyTreeCheckpointHandlerOptions options;
  options.type_handler_registry = registry;
  PyTreeCheckpointHandler handler(options);
  // Too large to be written before the array that is fetched.
  constexpr std::int64_t kSize = 100000;
  auto memory = std::make_shared<std::vector<float>>(kSize, 2.0F);
  const Array array(DType::kFloat32, 4, {kSize}, memory,
                    reinterpret_cast<const std::byte*>(memory->data()));
  const auto futures = handler.async_save(folder(job), {.item = {{"w", array}}});
  (*memory)[1] = 7;
  ready.set_value();
  for (const auto& future : futures) future.get();
  handler.finalize(folder(job));
  return {};
}

// ---- memory ----

// The most memory that this process has had resident since the last call with reset.
std::int64_t peak_memory(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << "5";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  throw Error(Code::kUnavailable, "no VmHWM in /proc/self/status");
}

NamedSharding over(std::int64_t devices) { return {make_mesh({devices}, {"x"}), {{"x"}}}; }

ShardedArray on_devices(std::int64_t shards, std::int64_t shard_bytes, ShardCopy copy) {
  ShardedArray array;
  array.shape = {shards * shard_bytes};
  array.dtype = DType::kInt8;
  array.sharding = over(shards);
  for (std::int64_t device = 0; device < shards; ++device) {
    ArrayShard shard;
    shard.device_id = device;
    shard.box = Box{{device * shard_bytes}, {shard_bytes}};
    shard.source = copy;
    array.shards.push_back(std::move(shard));
  }
  return array;
}

Json save_peak(const Json& job) {
  PyTreeCheckpointHandlerOptions options;
  options.use_compression = false;
  options.save_concurrent_bytes = number(job, "save_concurrent_bytes");
  PyTreeCheckpointHandler handler(options);
  const ShardCopy copy([](const Box&, const MutableArrayView& out) {
    std::memset(out.data, 1, static_cast<std::size_t>(element_count(out.shape)));
  });
  const Tree tree{{"w", on_devices(number(job, "shards"), number(job, "shard_bytes"), copy)}};
  const std::int64_t before = peak_memory(true);
  handler.save(folder(job), {.item = tree});
  return JsonObject{{"peak", peak_memory(false) - before}};
}

Json restore_peak(const Json& job) {
  PyTreeCheckpointHandlerOptions options;
  options.restore_concurrent_bytes = number(job, "restore_concurrent_bytes");
  const PyTreeCheckpointHandler handler(options);
  ArrayRestoreArgs args;
  args.sharding = over(number(job, "shards"));
  args.dtype = DType::kInt8;
  const std::int64_t before = peak_memory(true);
  static_cast<void>(handler.restore(folder(job), {.restore_args = Tree{{"w", Tree(args)}}}));
  return JsonObject{{"peak", peak_memory(false) - before}};
}

Json save_large(const Json& job) {
  const ShardCopy copy([](const Box&, const MutableArrayView&) {
    throw Error(Code::kUnavailable, "there are no elements");
  });
  PyTreeCheckpointHandler().save(
      folder(job), {.item = {{"w", on_devices(1, number(job, "shard_bytes"), copy)}}});
  return {};
}

Json restore_large(const Json& job) {
  ArrayRestoreArgs args;
  args.sharding = SingleDeviceSharding{"cpu:0"};
  static_cast<void>(
      PyTreeCheckpointHandler().restore(folder(job), {.restore_args = Tree{{"w", Tree(args)}}}));
  return {};
}

Json answer(const Json& job) {
  const std::string& op = *job.find("op")->as_string();
  if (op == "changed") return changed(job);
  if (op == "save_peak") return save_peak(job);
  if (op == "restore_peak") return restore_peak(job);
  if (op == "save_large") return save_large(job);
  if (op == "restore_large") return restore_large(job);
  throw std::runtime_error("no such job: " + op);
}

}  // namespace

int main() { cairn::testing::answer_list(answer); }
