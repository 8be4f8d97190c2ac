// pytree_checkpoint.cc -- the state of a training run saved in the background, and restored in
// several ways.
//
// Run it with a folder to save into. What it saves, Orbax's PyTreeCheckpointHandler and
// StandardCheckpointer restore.
#include <cairn/cairn.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/sharding.h>

#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace cairn;

// Weights that lie in rows on the devices of a mesh, and a step counter.
Tree state_on(const Mesh& mesh, std::int64_t step) {
  std::vector<float> values(32);
  std::iota(values.begin(), values.end(), 0.0F);
  const auto weights = Array::from<float>(values, {8, 4});
  const NamedSharding rows{mesh, {{"data"}}};
  return Tree{{"params", {{"kernel", ShardedArray::from_array(weights, rows)}}}, {"step", step}};
}

bool check(bool fine, const std::string& what) {
  std::cout << (fine ? "ok   " : "FAIL ") << what << '\n';
  return fine;
}

bool run(const std::string& path) {
  const Mesh two = make_mesh({2}, {"data"});
  const Tree state = state_on(two, 7);

  // In the background: returns once the values are copied, so that training may go on.
  AsyncCheckpointer background;
  background.save(path, {.item = state, .custom_metadata = R"({"run": "example"})"},
                  {.if_exists = IfExists::kReplace});
  background.wait_until_finished();

  // As it was saved: device arrays on the devices they were on.
  const Checkpointer checkpointer;
  const Tree back = checkpointer.restore(path);
  const auto* kernel = back.at("params/kernel").custom<ShardedArray>();
  bool fine =
      check(kernel != nullptr && kernel->shards.size() == 2, "as it was saved, on two devices");

  // On other devices, as another type, in another shape: with arguments for that leaf, and none for
  // the others.
  ArrayRestoreArgs wanted;
  wanted.sharding = NamedSharding{make_mesh({2, 2}, {"x", "y"}), {{"x"}, {"y"}}};
  wanted.dtype = DType::kBfloat16;
  wanted.global_shape = Shape{8, 6};
  wanted.strict = false;  // else another shape is an error
  const Tree args{{"params", {{"kernel", wanted}}}, {"step", EmptyNode::kNone}};
  const Tree moved = checkpointer.restore(path, {.restore_args = args});
  kernel = moved.at("params/kernel").custom<ShardedArray>();
  fine &= check(kernel != nullptr && kernel->shards.size() == 4 && kernel->shape == Shape{8, 6} &&
                    kernel->dtype == DType::kBfloat16,
                "on four devices, as bfloat16, filled up with zeros");

  // Part of it, into a target: what the target lacks is not read.
  const Tree target{{"step", 0}};
  const Tree part = checkpointer.restore(path, {.item = target, .partial_restore = true});
  fine &= check(part == Tree{{"step", 7}}, "only the step");

  // What is there, without reading any of it.
  const PyTreeMetadata metadata = checkpointer.metadata(path);
  const auto* about = metadata.tree.at("params/kernel").custom<ValueMetadata>();
  return fine & check(about != nullptr && about->shape == Shape{8, 4} &&
                          metadata.custom_metadata == R"({"run": "example"})",
                      "shape and custom metadata");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: pytree_checkpoint FOLDER\n";
    return 2;
  }
  return run(argv[1]) ? 0 : 1;
} catch (const cairn::Error& error) {
  std::cerr << "error: " << error.what() << '\n';
  return 1;
}
