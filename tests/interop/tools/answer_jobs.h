// answer_jobs.h -- the main loop of tools that read jobs as JSON from standard input and write one
// answer for each to standard output.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/error.h>

#include <iostream>
#include <sstream>
#include <string>
#include <utility>

namespace cairn::testing {

// Returns what `answer` returns for a job. If it throws an Error, returns {"error": message,
// "code": "invalid_argument"}.
template <class Answer>
Json answer_of(Answer& answer, const Json& job) {
  try {
    return answer(job);
  } catch (const Error& e) {
    return JsonObject{{"error", e.message()}, {"code", code_name(e.code())}};
  }
}

// Lets std::cin and std::cout have buffers of their own. Otherwise they read and write one byte at
// a time, and some jobs have many megabytes. Call this before any use of them.
inline void buffer_standard_streams() { std::ios::sync_with_stdio(false); }

// Answers each line at once.
template <class Answer>
void answer_lines(Answer answer, const JsonLimits& limits = {}) {
  buffer_standard_streams();
  for (std::string line; std::getline(std::cin, line);)
    std::cout << to_text(answer_of(answer, parse_json(line, limits))) << std::endl;
}

// Reads a list of jobs and writes the list of the answers.
template <class Answer>
void answer_list(Answer answer, const JsonLimits& limits = {},
                 JsonStyle style = JsonStyle::kCompact) {
  buffer_standard_streams();
  std::ostringstream input;
  input << std::cin.rdbuf();
  const Json jobs = parse_json(input.str(), limits);
  JsonArray answers;
  for (const Json& job : *jobs.as_array()) answers.push_back(answer_of(answer, job));
  std::cout << to_text(Json(std::move(answers)), style) << "\n";
}

}  // namespace cairn::testing
