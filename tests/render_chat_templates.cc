// Renders chat templates for the comparisons with other engines. Reads lines of JSON,
//   {"template": "...", "context": {...}, "time": seconds}
// and answers each with one line: {"text": "..."} or {"error": "...", "kind": "..."}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/chat_template.h"
#include "text/template_json.h"

namespace {

using Json = nlohmann::ordered_json;

kvasir::Result<std::string> render(const Json& request) {
  KVASIR_TRY(const auto chat_template,
             kvasir::text::ChatTemplate::parse(request.at("template").get<std::string>()));
  KVASIR_TRY(const auto context, kvasir::text::template_value_of(request.at("context")));
  KVASIR_TRY(const auto pieces, chat_template.render(context, {}, request.value("time", 0)));
  return kvasir::text::joined_text(pieces);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = render(Json::parse(line));
    const Json answer = text ? Json{{"text", *text}}
                             : Json{{"error", text.error().message},
                                    {"kind", kvasir::error_kind_name(text.error().kind)}};
    std::cout << answer.dump() << std::endl;
  }
}
