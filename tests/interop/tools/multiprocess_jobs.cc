// multiprocess_jobs.cc -- jobs of several processes, seen from one of them.
#include "tests/interop/tools/multiprocess_jobs.h"

#include <cairn/cairn.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/sharding.h>
#include <signal.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/interop/tools/save_jobs.h"
#include "tests/interop/tools/tree_json.h"

namespace cairn::testing {
namespace {

// The same arguments, but for the boxes of these devices alone.
Tree own_boxes(const Tree& restore_args, const std::unordered_set<std::int64_t>& devices) {
  return map_leaves(restore_args, [&](const KeyPath&, const Tree& leaf) {
    const auto* whole = leaf.custom<ArrayRestoreArgs>();
    if (whole == nullptr || !whole->sharding) return leaf;
    ArrayRestoreArgs own = *whole;
    ExplicitSharding parts;
    for (DeviceBox& held : device_boxes(whole->sharding.value(), whole->global_shape.value()))
      if (devices.contains(held.device_id))
        parts.parts.push_back({held.device_id, std::move(held.box)});
    own.sharding = std::move(parts);
    return Tree(std::move(own));
  });
}

Json numbers(const std::vector<std::int64_t>& list) { return JsonArray(list.begin(), list.end()); }

Json held_json(const ShardedArray& array) {
  JsonArray shards;
  for (const ArrayShard& shard : array.shards) {
    Array bytes = Array::allocate(array.dtype, shard.box.shape);
    copy_box(array, shard.box, bytes.mutable_view());
    const Json described = *tree_to_json(Tree(std::move(bytes))).find("array");
    shards.push_back(JsonArray{shard.device_id, numbers(shard.box.origin), numbers(shard.box.shape),
                               *described.find("hex")});
  }
  return JsonObject{{"key", array.random_key_impl}, {"shards", std::move(shards)}};
}

Json restore(const Json& job, const Coordinator& mine) {
  const std::string& directory = *job.find("dir")->as_string();
  if (mine.process_index() == 0 && open(directory)->verify({}).damaged())
    throw Error(Code::kDataLoss, "is damaged");
  PyTreeRestoreArgs args;
  args.restore_args =
      own_boxes(tree_from_json(*job.find("restore_args")), devices_of(job, mine.process_index()));
  const Tree restored = PyTreeCheckpointHandler().restore(directory, args);
  Json held{JsonObject{}};
  const Tree rest = map_leaves(restored, [&](const KeyPath& path, const Tree& leaf) {
    const auto* array = leaf.custom<ShardedArray>();
    if (array == nullptr) return leaf;
    held.set(param_name(path), held_json(*array));
    return Tree(Placeholder{});
  });
  return JsonObject{{"tree", tree_to_json(rest)}, {"held", std::move(held)}};
}

// The same process's end of the job, until it is killed on its way to or from a collective.
class Mortal final : public Coordinator {
 public:
  Mortal(std::shared_ptr<Coordinator> of, std::int64_t collective, bool after)
      : of_(std::move(of)), left_(collective), after_(after) {}

  [[nodiscard]] std::size_t process_index() const override { return of_->process_index(); }
  [[nodiscard]] std::size_t process_count() const override { return of_->process_count(); }
  void barrier(std::string_view name, Timeout timeout) override {
    die_at([&] { of_->barrier(name, timeout); });
  }
  Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                  Timeout timeout) override {
    Bytes out;
    die_at([&] { out = of_->broadcast(name, value, root, timeout); });
    return out;
  }
  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    std::vector<Bytes> out;
    die_at([&] { out = of_->all_gather(name, value, timeout); });
    return out;
  }

 private:
  template <class Meet>
  void die_at(Meet meet) {
    const bool last = left_-- == 0;
    if (last && !after_) raise(SIGKILL);
    meet();
    if (last) raise(SIGKILL);
  }

  std::shared_ptr<Coordinator> of_;
  std::int64_t left_;  // collectives before that one
  bool after_;
};

Json run(const Json& job, const std::shared_ptr<Coordinator>& mine) {
  try {
    if (*job.find("op")->as_string() == "restore") return restore(job, *mine);
    const Json* killed = given(job, "killed");
    const bool mortal =
        killed != nullptr && killed->find("process")->as_uint64() == mine->process_index();
    save_part(job, save_args_of(job),
              mortal
                  ? std::make_shared<Mortal>(mine, killed->find("collective")->as_int64().value(),
                                             *killed->find("after")->as_bool())
                  : mine);
    return JsonObject{{"done", true}};
  } catch (const Error& e) {
    return JsonObject{{"error", e.message()}, {"code", code_name(e.code())}};
  }
}

}  // namespace

void run_multiprocess_jobs(const std::shared_ptr<Coordinator>& mine, const std::string& jobs,
                           const std::string& out) {
  std::ifstream in(jobs, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  JsonArray results;
  JsonLimits limits;
  limits.max_depth = 500;
  const Json parsed = parse_json(text, limits);
  for (const Json& job : *parsed.as_array()) results.push_back(run(job, mine));
  std::ofstream to(out + "-" + std::to_string(mine->process_index()), std::ios::binary);
  to << to_text(Json(std::move(results)));
  if (!to.flush()) throw std::runtime_error(out + ": cannot be written");
}

}  // namespace cairn::testing
