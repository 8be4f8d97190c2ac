// async_save.cc -- saves steps in the background while the program goes on: async_save FOLDER.
// Orbax's CheckpointManager finds and restores them. Prints warnings, and appends all events to
// FOLDER.events.jsonl.
#include <cairn/cairn.h>
#include <cairn/event_sinks.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: async_save FOLDER\n", stderr), 2;
  using cairn::Tree;
  cairn::PyTreeCheckpointHandlerOptions options;
  options.observer = [print = cairn::event_printer(),
                      record = cairn::json_lines_sink(std::string(argv[1]) + ".events.jsonl")](
                         const cairn::Event& event) {
    print(event);
    record(event);
  };
  cairn::AsyncCheckpointer checkpointer(options);

  for (std::int64_t step = 0; step < 3; ++step) {
    const Tree state{{"step", step}};
    // Returns once the values are copied. Waits for the save before, and throws its error.
    checkpointer.save(std::string(argv[1]) + "/" + std::to_string(step), {.item = state},
                      {.if_exists = cairn::IfExists::kReplace, .item = "default"});
    // ... the next training step runs here ...
  }
  checkpointer.wait_until_finished();

  const Tree last = checkpointer.restore(std::string(argv[1]) + "/2/default");
  std::printf("restored step %lld\n",
              static_cast<long long>(std::get<std::int64_t>(last.at("step").value())));
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
