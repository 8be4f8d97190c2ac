// observer.cc -- calls observers, and writes events as text.
#include <cairn/base/json/json.h>
#include <cairn/base/observer/observe.h>

#include <cstdio>
#include <type_traits>

namespace cairn::inline v0 {
namespace {

std::string seconds_text(std::chrono::nanoseconds duration) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.6f", std::chrono::duration<double>(duration).count());
  return text;
}

Json json_of(const EventAttribute& attribute) {
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string_view>)
          return std::string(value);
        else
          return value;
      },
      attribute.value);
}

}  // namespace

std::string_view event_level_name(EventLevel level) {
  switch (level) {
    case EventLevel::kDebug:
      return "debug";
    case EventLevel::kInfo:
      return "info";
    case EventLevel::kWarning:
      return "warning";
    case EventLevel::kError:
      break;
  }
  return "error";
}

std::string event_text(const Event& event) {
  std::string text = std::string(event_level_name(event.level)) + " " + std::string(event.name);
  if (event.duration) text += " seconds=" + seconds_text(*event.duration);
  for (const EventAttribute& attribute : event.attributes)
    text += " " + std::string(attribute.name) + "=" + to_text(json_of(attribute));
  return text;
}

std::string event_json(const Event& event) {
  JsonObject object{{"level", std::string(event_level_name(event.level))},
                    {"event", std::string(event.name)}};
  if (event.duration)
    object.emplace_back("seconds", std::chrono::duration<double>(*event.duration).count());
  for (const EventAttribute& attribute : event.attributes)
    object.emplace_back(std::string(attribute.name), json_of(attribute));
  return to_text(Json(std::move(object)));
}

void observe(const Observer& observer, EventLevel level, std::string_view name,
             std::initializer_list<EventAttribute> attributes,
             std::optional<std::chrono::nanoseconds> duration) noexcept {
  if (!observer) return;
  try {
    observer({level, name, duration, {attributes.begin(), attributes.size()}});
  } catch (...) {  // NOLINT(bugprone-empty-catch) -- cairn/observer.h says so
  }
}

}  // namespace cairn::inline v0
