// handler_tool.cc -- drives the parts of the type handlers that need no checkpoint: registries,
// byte limiters, and the controller of the device-to-host limit. Reads jobs, a list, and
// writes the list of answers.
//
// {"op": "registry", "standard": false, "steps": [
//    {"add": type, "id": handler, "typestr": text, "accepts": [type, ...] | null, "override": true},
//    {"get": type} | {"has": type} | {"get_typestr": text} | {"has_typestr": text}]}
//  -> [handler | true | false | event | null | error text, ...]; a standard handler is its typestr
// {"op": "limiter", "limit": n, "steps": [{"reserve": bytes} | {"release": number of a request}]}
//  -> for each step, the state of each request: "granted", "waits", "refused", "released"
// {"op": "regulator", "max": gib, "steps": [{"current", "total", "peak", "surge"}]} -> [gib, ...]
#include <cairn/handlers.h>
#include <cairn/handlers/byte_limiter.h>
#include <cairn/orbax/save/memory_regulator.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/interop/tools/answer_jobs.h"

namespace {

using namespace cairn;

// ---- registries ----

struct T0 {};
struct T1 {};
struct T2 {};
struct T3 {};

std::type_index type_of(const Json& name) {
  static const std::map<std::string, std::type_index> kTypes = {
      {"T0", typeid(T0)},           {"T1", typeid(T1)},       {"T2", typeid(T2)},
      {"T3", typeid(T3)},           {"bool", typeid(bool)},   {"int", typeid(std::int64_t)},
      {"float", typeid(double)},    {"bytes", typeid(Bytes)}, {"str", typeid(std::string)},
      {"np.ndarray", typeid(Array)}};
  return kTypes.at(*name.as_string());
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
  TypeHandlerRegistry registry;
  if (*job.find("standard")->as_bool()) registry = standard_type_handlers();
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
  return run_regulator(job);
}

}  // namespace

int main() { cairn::testing::answer_list(run); }
