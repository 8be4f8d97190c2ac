// handler.cc -- SingleReplicaArrayHandler: an ArrayHandler with another way to restore.
#include <cairn/handlers/single_replica/restore.h>
#include <cairn/orbax/handlers.h>

#include <utility>

namespace cairn::inline v0 {

SingleReplicaArrayHandler::SingleReplicaArrayHandler() : SingleReplicaArrayHandler(Options{}) {}
SingleReplicaArrayHandler::SingleReplicaArrayHandler(Options options)
    : ArrayHandler(options.array), options_(std::move(options)) {}

std::vector<Tree> SingleReplicaArrayHandler::deserialize(
    std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args) const {
  std::vector<Tree> out;
  for (ShardedArray& array : handlers::SingleReplicaRestore(infos, args, options_).run())
    out.emplace_back(CustomLeaf::of(std::move(array)));
  return out;
}

}  // namespace cairn::inline v0
