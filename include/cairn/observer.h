// observer.h -- what the library reports while it works: warnings, durations, sizes, progress. It
// reports to the functions in the options of a save or restore, and to nobody by default.
// docs/reference/observer.md lists the events.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// How much an event matters.
enum class EventLevel : std::uint8_t {
  kDebug,    // durations of parts
  kInfo,     // what was done, how long it took, how much it was
  kWarning,  // the call goes on, but probably not as the caller intends
  kError     // the call fails; the error that it throws says the same
};
// "debug", "info", "warning" or "error".
std::string_view event_level_name(EventLevel level);

// A detail of an event: a name, and a string or a number.
struct EventAttribute {
  std::string_view name;
  std::variant<std::string_view, std::int64_t, double> value;
};

// Something that happened. Its strings are valid only during the call of the observer.
struct Event {
  EventLevel level = EventLevel::kInfo;
  std::string_view name;  // words joined by dots: "save.finished". Names do not change.
  std::optional<std::chrono::nanoseconds> duration;  // of what has ended with the event
  std::span<const EventAttribute> attributes;        // in a fixed order
};

// Receives events. The library calls it from the thread in which the event happens, so it may be
// called from several threads at once, and in the middle of a save: it should return soon. An
// observer must not throw. An exception that leaves it is dropped, and the save or restore goes on.
using Observer = std::function<void(const Event&)>;

// Progress callback: (bytes done, bytes in total). Called from worker threads. Null: none.
using ProgressFn = std::function<void(std::uint64_t, std::uint64_t)>;

// The event as one line of text, for people: `warning save.small_chunks array="w" bytes=512`.
std::string event_text(const Event& event);
// The event as one JSON object without line breaks, for programs:
// {"level":"info","event":"save.finished","seconds":0.5,"path":"/ckpt","bytes":4096}.
std::string event_json(const Event& event);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
