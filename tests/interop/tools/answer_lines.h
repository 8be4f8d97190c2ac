// answer_lines.h -- what tools are that answer questions: a line of JSON in, a line out.
#pragma once

#include <cairn/base/json.h>
#include <cairn/error.h>

#include <iostream>
#include <string>

namespace cairn::testing {

// Answers every line of standard input; what `answer` throws as an Error is the answer {"error":
// message}.
template <class Answer>
void answer_lines(Answer answer) {
  for (std::string line; std::getline(std::cin, line);) {
    const Json question = parse_json(line);
    try {
      std::cout << to_text(answer(question)) << '\n';
    } catch (const Error& e) {
      std::cout << to_text(JsonObject{{"error", e.message()}}) << '\n';
    }
  }
}

}  // namespace cairn::testing
