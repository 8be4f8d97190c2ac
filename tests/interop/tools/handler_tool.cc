// handler_tool.cc -- drives the parts of the type handlers that need no checkpoint: registries,
// byte limiters, and the controller of the device-to-host limit. Reads jobs, a list, and
// writes the list of answers.
//
// {"op": "registry", "standard": false, "global": true: the default one, "steps": [
//    {"add": type, "id": handler, "typestr": text, "accepts": [type, ...] | null, "override": true},
//    {"get": type} | {"has": type} | {"get_typestr": text} | {"has_typestr": text}]}
//  -> [handler | true | false | event | null | error text, ...]; a standard handler is its typestr
// {"op": "limiter", "limit": n, "steps": [{"reserve": bytes} | {"release": number of a request}]}
//  -> for each step, the state of each request: "granted", "waits", "refused", "released"
// {"op": "regulator", "max": gib, "steps": [{"current", "total", "peak", "surge"}]} -> [gib, ...]
// {"op": "supported", "leaves": [tree, ...]} -> [bool, ...]: whether there is a handler
// {"op": "supported_types"} -> [type, ...]
// {"op": "drivers"} -> [text, ...]: of files, Zarr v2 and v3
// {"op": "lengths", "of": [n, ...]}: check_input_arguments -> null
// {"op": "path", "name": text, "dir": text}: of a ParamInfo -> text
// {"op": "flags", "of": [true | false | null, ...]}: is_ocdbt_checkpoint of leaves that one call
//    serializes -> null
#include <cairn/orbax/array_spec.h>
#include <cairn/orbax/byte_limiter.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>
#include <cairn/orbax/open.h>
#include <cairn/orbax/save/memory_regulator.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/interop/tools/answer_jobs.h"
#include "tests/interop/tools/tree_json.h"

namespace {

using namespace cairn;

// ---- registries ----

struct T0 {};
struct T1 {};
struct T2 {};
struct T3 {};

const std::map<std::string, std::type_index>& types() {
  static const std::map<std::string, std::type_index> kTypes = {{"T0", typeid(T0)},
                                                                {"T1", typeid(T1)},
                                                                {"T2", typeid(T2)},
                                                                {"T3", typeid(T3)},
                                                                {"bool", typeid(bool)},
                                                                {"int", typeid(std::int64_t)},
                                                                {"float", typeid(double)},
                                                                {"bytes", typeid(Bytes)},
                                                                {"str", typeid(std::string)},
                                                                {"np.ndarray", typeid(Array)},
                                                                {"np.number", typeid(NumpyScalar)},
                                                                {"jax.Array", typeid(ShardedArray)},
                                                                {"ellipsis", typeid(Placeholder)}};
  return kTypes;
}

std::type_index type_of(const Json& name) { return types().at(*name.as_string()); }

Json name_of(std::type_index type) {
  for (const auto& [name, of] : types())
    if (of == type) return name;
  throw std::runtime_error("a type without a name");
}

// A handler that has a typestr and an identity.
class Numbered : public TypeHandler {
 public:
  Numbered(std::string typestr, std::int64_t id) : number(id), typestr_(std::move(typestr)) {}
  [[nodiscard]] std::string typestr() const override { return typestr_; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(std::span<const ParamInfo>) const override {
    return {};
  }
  Futures serialize(std::span<const Tree>, std::span<const ParamInfo>,
                    std::span<const SaveArgs>) const override {
    return {};
  }
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo>,
                                              std::span<const AnyRestoreArgs>) const override {
    return {};
  }
  const std::int64_t number;

 private:
  std::string typestr_;
};

Json identity(const TypeHandlerPtr& handler) {
  if (const auto* mine = dynamic_cast<const Numbered*>(handler.get())) return mine->number;
  return handler->typestr();
}

// Returns the name of the event that is reported, or null.
Json add(TypeHandlerRegistry& registry, const Json& step) {
  Json reported;
  TypeHandlerRegistry::AddOptions options;
  if (const JsonArray* types = step.find("accepts")->as_array()) {
    std::vector<std::type_index> accepted;
    for (const Json& type : *types) accepted.push_back(type_of(type));
    options.accepts = [accepted](std::type_index type) {
      return std::find(accepted.begin(), accepted.end(), type) != accepted.end();
    };
  }
  options.observer = [&](const Event& event) { reported = Json(event.name); };
  options.override_existing = *step.find("override")->as_bool();
  registry.add(
      type_of(*step.find("add")),
      std::make_shared<Numbered>(*step.find("typestr")->as_string(), *step.find("id")->as_int64()),
      options);
  return reported;
}

Json registry_step(TypeHandlerRegistry& registry, const Json& step) {
  if (const Json* type = step.find("get")) return identity(registry.get(type_of(*type)));
  if (const Json* type = step.find("has")) return registry.has(type_of(*type));
  if (const Json* text = step.find("get_typestr"))
    return identity(registry.get(std::string_view(*text->as_string())));
  if (const Json* text = step.find("has_typestr"))
    return registry.has(std::string_view(*text->as_string()));
  return add(registry, step);
}

Json run_registry(const Json& job) {
  TypeHandlerRegistry own;
  if (*job.find("standard")->as_bool()) own = standard_type_handlers();
  const bool global = job.find("global") != nullptr;
  if (global) default_type_handler_registry() = standard_type_handlers();
  TypeHandlerRegistry& registry = global ? default_type_handler_registry() : own;
  JsonArray out;
  for (const Json& step : *job.find("steps")->as_array()) {
    try {
      out.push_back(registry_step(registry, step));
    } catch (const Error& e) {
      out.emplace_back(std::string(code_name(e.code())) + ": " + e.message());
    }
  }
  return out;
}

// ---- what a call gets ----

class NoWriter : public ItemWriter {
 public:
  void add_array(StoreArray) override {}
  void add_string_in(std::string, std::string, std::string) override {}
  [[nodiscard]] bool is_background() const override { return false; }
  [[nodiscard]] std::shared_future<void> written() const override { return {}; }
};

Json run_supported(const Json& job) {
  const TypeHandlerRegistry registry = standard_type_handlers();
  JsonArray out;
  for (const Json& leaf : *job.find("leaves")->as_array())
    out.emplace_back(registry.has(leaf_type(cairn::testing::tree_from_json(leaf))));
  return out;
}

Json run_supported_types() {
  JsonArray out;
  for (const std::type_index type : supported_types()) out.push_back(name_of(type));
  return out;
}

Json run_lengths(const Json& job) {
  const JsonArray& of = *job.find("of")->as_array();
  const auto length = [&](std::size_t i) {
    return static_cast<std::size_t>(of.at(i).as_int64().value());
  };
  if (of.size() == 1)
    check_input_arguments({length(0)});
  else if (of.size() == 2)
    check_input_arguments({length(0), length(1)});
  else
    check_input_arguments({length(0), length(1), length(2)});
  return {};
}

Json run_path(const Json& job) {
  ParamInfo info;
  info.name = *job.find("name")->as_string();
  info.parent_dir = *job.find("dir")->as_string();
  return info.path();
}

Json run_flags(const Json& job) {
  const JsonArray& of = *job.find("of")->as_array();
  std::vector<ParamInfo> infos(of.size());
  const auto writer = std::make_shared<NoWriter>();
  for (std::size_t i = 0; i < of.size(); ++i) {
    infos[i].name = "leaf";
    infos[i].writer = writer;
    if (const bool* flag = of[i].as_bool()) infos[i].is_ocdbt_checkpoint = *flag;
  }
  const std::vector<Tree> values(of.size(), Tree(Array::allocate(DType::kInt8, {1})));
  static_cast<void>(NumpyHandler().serialize(values, infos, std::vector<SaveArgs>(of.size())));
  return {};
}

// ---- limiters ----

// A thread that asks for bytes and holds them until it is told to release them.
class Request {
 public:
  Request(ByteLimiter& limiter, std::int64_t bytes)
      : thread_([this, &limiter, bytes] { run(limiter, bytes); }) {}
  ~Request() { release(); }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  void release() {
    release_ = true;
    release_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  // Waits until the request is granted, is refused, or sleeps because it must wait.
  std::string settle() {
    for (int asleep = 0; state_ == kAsking && asleep < 3;) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      asleep = is_asleep() ? asleep + 1 : 0;
    }
    const char* const kNames[] = {"waits", "granted", "refused", "released"};
    return kNames[state_];
  }

 private:
  enum State { kAsking, kGranted, kRefused, kReleased };

  void run(ByteLimiter& limiter, std::int64_t bytes) {
    id_ = gettid();
    try {
      const auto held = limiter.reserve(bytes);
      state_ = kGranted;
      release_.wait(false);
    } catch (const Error&) {
      state_ = kRefused;
      return;
    }
    state_ = kReleased;
  }

  [[nodiscard]] bool is_asleep() const {
    if (id_ == 0) return false;
    std::ifstream in("/proc/self/task/" + std::to_string(id_) + "/stat");
    std::string text;
    std::getline(in, text);
    const std::size_t at = text.rfind(')');
    return at != std::string::npos && text[at + 2] == 'S';
  }

  std::atomic<int> state_{kAsking};
  std::atomic<pid_t> id_{0};
  std::atomic<bool> release_{false};
  std::thread thread_;
};

Json run_limiter(const Json& job) {
  ByteLimiter limiter(job.find("limit")->as_int64());
  std::vector<std::unique_ptr<Request>> requests;
  JsonArray out;
  for (const Json& step : *job.find("steps")->as_array()) {
    if (const Json* bytes = step.find("reserve"))
      requests.push_back(std::make_unique<Request>(limiter, *bytes->as_int64()));
    else
      requests.at(static_cast<std::size_t>(*step.find("release")->as_int64()))->release();
    JsonArray states;
    for (const auto& request : requests) states.emplace_back(request->settle());
    out.emplace_back(std::move(states));
  }
  return out;
}

// ---- the device-to-host limit ----

Json run_regulator(const Json& job) {
  MemoryRegulator regulator(*job.find("max")->as_double());
  const auto number = [](const Json& step, const char* name) {
    return *step.find(name)->as_double();
  };
  JsonArray out;
  for (const Json& step : *job.find("steps")->as_array())
    out.emplace_back(regulator.next_limit(number(step, "current"),
                                          {number(step, "total"), number(step, "peak")},
                                          number(step, "surge")));
  return out;
}

Json run(const Json& job) {
  const std::string& op = *job.find("op")->as_string();
  if (op == "registry") return run_registry(job);
  if (op == "limiter") return run_limiter(job);
  if (op == "regulator") return run_regulator(job);
  if (op == "supported") return run_supported(job);
  if (op == "supported_types") return run_supported_types();
  if (op == "drivers") return JsonArray{kFileDriver, kZarr2Driver, kZarr3Driver};
  if (op == "lengths") return run_lengths(job);
  if (op == "path") return run_path(job);
  if (op == "flags") return run_flags(job);
  throw std::runtime_error("no such job: " + op);
}

}  // namespace

int main() { cairn::testing::answer_list(run); }
