// answer_jobs.h -- the main loop of tools that read jobs as JSON from standard input and write one
// answer for each to standard output.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/error.h>

#include <iostream>
#include <iterator>
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

// Answers each line at once.
template <class Answer>
void answer_lines(Answer answer, const JsonLimits& limits = {}) {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << to_text(answer_of(answer, parse_json(line, limits))) << std::endl;
}

// Reads a list of jobs and writes the list of the answers.
template <class Answer>
void answer_list(Answer answer, const JsonLimits& limits = {},
                 JsonStyle style = JsonStyle::kCompact) {
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  const Json jobs = parse_json(input, limits);
  JsonArray answers;
  for (const Json& job : *jobs.as_array()) answers.push_back(answer_of(answer, job));
  std::cout << to_text(Json(std::move(answers)), style) << "\n";
}

}  // namespace cairn::testing
