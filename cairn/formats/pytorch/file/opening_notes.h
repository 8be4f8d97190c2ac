// opening_notes.h -- the notes and warnings that opening a file of PyTorch gives.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/formats/files/listed_names.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {

// Adds to a checkpoint that is being opened. Both arguments must outlive the object.
class OpeningNotes {
 public:
  OpeningNotes(CheckpointInfo& info, std::vector<Finding>& notes) : info_(info), notes_(notes) {}

  // For verify alone.
  void note(const std::string& file, std::string text) {
    Finding& finding = notes_.emplace_back();
    finding.severity = Severity::kNote;
    finding.file = file;
    finding.message = std::move(text);
  }
  // For everybody.
  void warn(const std::string& file, std::string text) {
    info_.warnings.push_back(file + ": " + text);
    note(file, std::move(text));
  }
  // What a pickle is to those who unpickle it. `what`: "this file".
  void note_globals(const std::string& file, const std::string& what,
                    const std::vector<std::string>& globals) {
    if (globals.empty()) return;
    note(file, "unpickling " + what + " may run any code: it imports " + listed_names(globals));
  }
  // What is not shown as it is, as State has it.
  void warn_of_texts(const std::string& file, const std::vector<std::string>& renamed,
                     const std::vector<std::string>& escaped) {
    if (!renamed.empty())
      warn(file, "the text of a key is that of another one, or cannot be shown; such keys are " +
                     listed_names(renamed));
    if (!escaped.empty())
      warn(file, "a text that is not Unicode is shown with escapes: " + listed_names(escaped));
  }

 private:
  CheckpointInfo& info_;
  std::vector<Finding>& notes_;
};

}  // namespace cairn::inline v0::pytorch
