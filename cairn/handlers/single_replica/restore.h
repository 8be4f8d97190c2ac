// restore.h -- restores arrays that the processes of one replica read and send to the others. All
// processes work through the same steps at the same time.
#pragma once

#include <cairn/distributed/consistency.h>
#include <cairn/distributed/process_group.h>
#include <cairn/distributed/transfer.h>
#include <cairn/handlers/array_restore.h>
#include <cairn/handlers/single_replica/replicas.h>
#include <cairn/orbax/handlers.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::handlers {

// One restore, from the check of the arguments to the broadcast.
class SingleReplicaRestore {
 public:
  // `infos` and `args` are parallel and not empty; they must outlive this object.
  SingleReplicaRestore(std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args,
                       const SingleReplicaArrayHandler::Options& options);

  // Returns the arrays, in the order of `infos`. Call it once. Throws what
  // SingleReplicaArrayHandler throws.
  std::vector<ShardedArray> run();

 private:
  // The steps of run(), in order.
  void agree_on_arguments();
  void agree_on_arrays();
  void read();
  void broadcast();
  // Reports arrays that are larger than the limit of a group.
  void report_deprecated() const;
  void report_large_arrays(std::span<const std::pair<std::size_t, std::size_t>> groups) const;
  void add_transfers(RestoringArray& array, std::vector<distributed::Transfer>& transfers) const;

  [[nodiscard]] Bytes check_arguments();
  // Makes the replicas from the first mesh; every other mesh must be the same.
  void take_mesh(const NamedSharding& sharding);
  [[nodiscard]] std::int64_t own_limit() const;
  void describe_arrays();
  [[nodiscard]] std::vector<std::uint64_t> bytes_per_device() const;

  std::span<const ParamInfo> infos_;
  std::span<const AnyRestoreArgs> args_;
  const SingleReplicaArrayHandler::Options& options_;
  const ItemReader& reader_;
  MultiprocessingOptions processes_;
  distributed::ProcessGroup group_;
  std::optional<Replicas> replicas_;
  std::vector<NamedSharding> shardings_;  // of the results
  distributed::ConsistencyCheck arguments_;
  std::uint64_t longest_message_ = 0;  // the longest that all coordinators accept
  bool reads_ = false;                 // whether this process belongs to the primary replica
  std::vector<TensorInfo> stored_;     // only in processes that read
  std::vector<RestoringArray> arrays_;
  std::int64_t limit_ = 0;  // bytes of a broadcast group
};

}  // namespace cairn::inline v0::handlers
