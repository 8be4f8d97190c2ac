// sharded_array.cc -- saves an array that two devices share, and restores it for four devices:
// sharded_array FOLDER.
#include <cairn/cairn.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/sharding.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: sharded_array FOLDER\n", stderr), 2;
  using namespace cairn;
  Array weights = Array::allocate(DType::kFloat32, {8, 4});
  std::memset(weights.mutable_view().data, 0, weights.bytes().size());

  const NamedSharding rows{make_mesh({2}, {"data"}), {{"data"}}};
  const Tree state = Tree::Dict{{"kernel", ShardedArray::from_array(weights, rows)}};
  Checkpointer checkpointer;
  checkpointer.save(argv[1], {.item = state}, {.if_exists = IfExists::kReplace});

  ArrayRestoreArgs wanted;
  wanted.sharding = NamedSharding{make_mesh({2, 2}, {"x", "y"}), {{"x"}, {"y"}}};
  const Tree args = Tree::Dict{{"kernel", wanted}};
  const Tree moved = checkpointer.restore(argv[1], {.restore_args = args});
  for (const ArrayShard& shard : moved.find("kernel")->custom<ShardedArray>()->shards)
    std::printf("device %lld holds %s\n", static_cast<long long>(shard.device_id),
                shape_text(shard.box.shape).c_str());
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
