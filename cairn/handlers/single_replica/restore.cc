// restore.cc -- the steps of a restore with one reading replica: arguments, arrays, reading,
// broadcasting, finishing.
#include <cairn/handlers/single_replica/restore.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/base/observer/observe.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::handlers {
namespace {

using distributed::StepKind;

// the name of the exchanges that send the values, and of the step after them
constexpr std::string_view kValues = "restore: values";

const SingleReplicaArrayRestoreArgs& single_replica_args(const AnyRestoreArgs& args) {
  const auto* given = std::get_if<SingleReplicaArrayRestoreArgs>(&args);
  if (given == nullptr)
    invalid_argument(
        std::string("SingleReplicaArrayHandler needs SingleReplicaArrayRestoreArgs, got ") +
        (std::holds_alternative<ArrayRestoreArgs>(args) ? "ArrayRestoreArgs" : "RestoreArgs"));
  if (!given->sharding)
    invalid_argument(
        "its SingleReplicaArrayRestoreArgs have no sharding, which SingleReplicaArrayHandler needs "
        "(mesh and mesh_axes are not enough)");
  return *given;
}

const NamedSharding& named(const Sharding& sharding) {
  const auto* named = std::get_if<NamedSharding>(&sharding);
  if (named == nullptr)
    invalid_argument("its sharding is not a NamedSharding, so there are no replicas: " +
                     sharding_text(sharding));
  return *named;
}

const ItemReader& checked_reader(std::span<const ParamInfo> infos,
                                 std::span<const AnyRestoreArgs> args) {
  check_input_arguments({infos.size(), args.size()});
  return reader_of(infos);
}

}  // namespace

SingleReplicaRestore::SingleReplicaRestore(std::span<const ParamInfo> infos,
                                           std::span<const AnyRestoreArgs> args,
                                           const SingleReplicaArrayHandler::Options& options)
    : infos_(infos),
      args_(args),
      options_(options),
      reader_(checked_reader(infos, args)),
      processes_(reader_.processes()),
      group_(processes_) {}

std::vector<ShardedArray> SingleReplicaRestore::run() {
  agree_on_arguments();
  agree_on_arrays();
  read();
  broadcast();
  std::vector<ShardedArray> out;
  // This step fails if a process did not receive all its boxes.
  group_.step(kValues, StepKind::kIo, [&] {
    for (RestoringArray& array : arrays_) out.push_back(array.take());
  });
  return out;
}

// ---- arguments: what can be checked without the stored arrays ----

void SingleReplicaRestore::agree_on_arguments() {
  const auto messages =
      group_.gather("restore: arguments", StepKind::kControl, [&] { return check_arguments(); });
  arguments_.check(messages, group_, "restore: other arguments");
  std::vector<std::vector<std::int64_t>> devices(messages.size());
  longest_message_ = UINT64_MAX;
  for (std::size_t p = 0; p < messages.size(); ++p) {
    ByteReader in(messages[p]);
    in.u64();  // the digest
    longest_message_ = std::min(longest_message_, in.u64());
    while (!in.at_end()) devices[p].push_back(static_cast<std::int64_t>(in.u64()));
  }
  replicas_->set_owners(devices);
  reads_ = replicas_->reads(group_.index());
}

Bytes SingleReplicaRestore::check_arguments() {
  if (!options_.broadcast_memory_limit_bytes)
    default_broadcast_limit({}, options_.broadcast_memory_scaling_factor);
  if (!group_.is_single() && !processes_.local_devices)
    invalid_argument(
        "several processes restore: set local_devices in multiprocessing_options to the devices of "
        "this process");
  arguments_.add("replica_axis_index", std::to_string(options_.replica_axis_index));
  arguments_.add("primary_replica_id", std::to_string(options_.primary_replica_id));
  for (std::size_t i = 0; i < infos_.size(); ++i)
    with_context([&] { return infos_[i].name; },
                 [&] {
                   const SingleReplicaArrayRestoreArgs& args = single_replica_args(args_[i]);
                   static_cast<void>(asked_shape(args));
                   NamedSharding sharding = named(*args.sharding);
                   take_mesh(sharding);
                   if (args.single_replica_sharding)
                     sharding.spec = replicas_->spec_of(*args.single_replica_sharding);
                   else
                     replicas_->check_spec(sharding.spec);
                   // Without the devices, of which there may be thousands: all shardings use the
                   // one mesh.
                   arguments_.add(
                       infos_[i].name,
                       sharding_json(NamedSharding{{sharding.mesh.shape, sharding.mesh.axis_names},
                                                   sharding.spec})
                           .value());
                   shardings_.push_back(std::move(sharding));
                 });
  report_deprecated();
  ByteWriter out;
  out.u64(arguments_.digest()).u64(group_.max_value_bytes());
  for (const std::int64_t id : processes_.local_devices
                                   ? std::span<const std::int64_t>(*processes_.local_devices)
                                   : replicas_->devices())
    out.u64(static_cast<std::uint64_t>(id));
  return std::move(out).take();
}

void SingleReplicaRestore::take_mesh(const NamedSharding& sharding) {
  if (replicas_) {
    if (!replicas_->is_same(sharding.mesh))
      invalid_argument("is on a different mesh than " + infos_[0].name +
                       "; a single replica can be read only if all arrays are on one mesh");
    return;
  }
  replicas_.emplace(sharding.mesh,
                    ReplicaChoice{options_.replica_axis_index, options_.primary_replica_id});
  Mesh mesh{sharding.mesh.shape, sharding.mesh.axis_names};
  mesh.device_ids =
      std::vector<std::int64_t>(replicas_->devices().begin(), replicas_->devices().end());
  arguments_.add("the mesh", sharding_json(NamedSharding{std::move(mesh), {}}).value());
}

// ---- arrays: the stored arrays and the results ----

void SingleReplicaRestore::agree_on_arrays() {
  distributed::ConsistencyCheck results;
  const auto messages = group_.gather("restore: arrays", StepKind::kIo, [&] {
    describe_arrays();
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      results.add(infos_[i].name, std::string(dtype_name(arrays_[i].dtype())) + " " +
                                      shape_text(arrays_[i].shape()));
    ByteWriter out;
    out.u64(results.digest()).u64(static_cast<std::uint64_t>(own_limit()));
    return std::move(out).take();
  });
  results.check(messages, group_, "restore: other arrays");
  limit_ = INT64_MAX;
  for (const Bytes& message : messages) {
    ByteReader in(message);
    in.u64();  // the digest
    limit_ = std::min(limit_, static_cast<std::int64_t>(in.u64()));
  }
}

void SingleReplicaRestore::describe_arrays() {
  if (reads_) stored_ = stored_arrays(reader_, infos_, options_.array.metadata_key);
  const LocalDevices local = local_devices(processes_);
  for (std::size_t i = 0; i < infos_.size(); ++i)
    with_context(
        [&] { return infos_[i].name; },
        [&] {
          const SingleReplicaArrayRestoreArgs& args = single_replica_args(args_[i]);
          const std::optional<Shape> asked = asked_shape(args);
          if (!reads_ && (!asked || !args.dtype))
            invalid_argument(std::string("has no ") + (asked ? "dtype" : "global_shape") +
                             " in its SingleReplicaArrayRestoreArgs: a process outside the primary "
                             "replica, which does not read, needs both");
          Shape shape = reads_ ? shape_for(stored_[i], args) : *asked;
          const DType dtype = reads_ ? args.dtype.value_or(stored_[i].dtype) : *args.dtype;
          arrays_.emplace_back(std::move(shape), shardings_[i], dtype, local);
        });
  if (reads_) report_shard_shapes(infos_, stored_, arrays_);
}

std::vector<std::uint64_t> SingleReplicaRestore::bytes_per_device() const {
  std::vector<std::uint64_t> bytes;
  for (const RestoringArray& array : arrays_) bytes.push_back(array.box_bytes(0));
  return bytes;
}

std::int64_t SingleReplicaRestore::own_limit() const {
  if (options_.broadcast_memory_limit_bytes) return *options_.broadcast_memory_limit_bytes;
  return default_broadcast_limit(bytes_per_device(), options_.broadcast_memory_scaling_factor);
}

// ---- values ----

void SingleReplicaRestore::read() {
  group_.step("restore: read", StepKind::kIo, [&] {
    std::vector<LeafRead> reads;
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      with_context([&] { return infos_[i].name; },
                   [&] {
                     RestoringArray& array = arrays_[i];
                     if (reads_)
                       for (const std::size_t box :
                            replicas_->read_by(group_.index(), array.box_of_device()))
                         array.read(box, infos_[i], stored_[i], reads);
                     // Allocate the memory for received boxes now: no process may fail during the
                     // transfers.
                     for (std::size_t box = 0; box < array.boxes().size(); ++box)
                       if (array.is_here(box)) array.memory(box);
                   });
    const Stopwatch watch;
    read_leaves(reader_, infos_, reads);
    if (reads_)
      observe(infos_[0].observer, EventLevel::kInfo, "restore.primary_replica_read",
              {{"arrays", static_cast<std::int64_t>(arrays_.size())}}, watch.elapsed());
  });
}

void SingleReplicaRestore::broadcast() {
  if (group_.is_single()) return;
  distributed::TransferLimits limits;
  limits.message = std::min(limits.message, longest_message_);
  std::vector<std::pair<std::size_t, std::size_t>> groups;
  group_.between_exchanges(kValues, [&] { groups = broadcast_groups(bytes_per_device(), limit_); });
  const Stopwatch watch;
  report_large_arrays(groups);
  for (const auto& [first, last] : groups) {
    std::vector<distributed::Transfer> transfers;
    group_.between_exchanges(kValues, [&, first = first, last = last] {
      for (std::size_t i = first; i < last; ++i) add_transfers(arrays_[i], transfers);
    });
    distributed::exchange_transfers(group_, kValues, transfers, limits);
  }
  observe(infos_[0].observer, EventLevel::kInfo, "restore.broadcast",
          {{"arrays", static_cast<std::int64_t>(arrays_.size())},
           {"groups", static_cast<std::int64_t>(groups.size())}},
          watch.elapsed());
}

void SingleReplicaRestore::report_deprecated() const {
  std::int64_t count = 0;
  std::string_view first;
  for (std::size_t i = 0; i < infos_.size(); ++i)
    if (single_replica_args(args_[i]).single_replica_sharding && count++ == 0)
      first = infos_[i].name;
  if (count > 0)
    observe(infos_[0].observer, EventLevel::kWarning, "restore.single_replica_sharding_deprecated",
            {{"leaf", first}, {"leaves", count}});
}

void SingleReplicaRestore::report_large_arrays(
    std::span<const std::pair<std::size_t, std::size_t>> groups) const {
  const std::vector<std::uint64_t> bytes = bytes_per_device();
  for (const auto& group : groups) {
    const std::uint64_t size = bytes[group.first];
    if (static_cast<std::int64_t>(size) > limit_)
      observe(infos_[0].observer, EventLevel::kWarning, "restore.broadcast_over_limit",
              {{"leaf", infos_[group.first].name},
               {"bytes", static_cast<std::int64_t>(size)},
               {"limit", limit_}});
  }
}

void SingleReplicaRestore::add_transfers(RestoringArray& array,
                                         std::vector<distributed::Transfer>& transfers) const {
  for (Replicas::Route& route : replicas_->routes(array.box_of_device())) {
    std::byte* bytes = array.is_here(route.box) ? array.memory(route.box) : nullptr;
    transfers.push_back({route.from, std::move(route.to), array.box_bytes(route.box), bytes});
  }
}

}  // namespace cairn::inline v0::handlers
