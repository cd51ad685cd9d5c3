// Any bytes as a chat template, rendered on a small conversation that the input also ends.
//
//   input := template 0x00 text of a user  |  template
//
// Whatever happens: an error with a place, or text within the limits whose user part is data.
#include <cstdint>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/test_vocabulary.h"
#include "text/utf8.h"

namespace {

using namespace kvasir::text;

TemplateValue conversation(std::string_view text) {
  using Object = TemplateValue::Object;
  using Array = TemplateValue::Array;
  const Object tool = {{"name", "f"}, {"arguments", Object{{"x", 1.5}, {"y", Array{nullptr}}}}};
  return Object{{"messages", Array{Object{{"role", "system"}, {"content", "s"}},
                                   Object{{"role", "user"}, {"content", text}},
                                   Object{{"role", "assistant"}, {"tool_calls", Array{tool}}}}},
                {"bos_token", TemplateValue::special("<|im_start|>")},
                {"n", 3},
                {"add_generation_prompt", true}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = std::move(*load_tokenizer(small_vocabulary()));
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t border = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(std::min(border + 1, input.size()));

  const auto chat_template = ChatTemplate::parse(input.substr(0, border));
  if (!chat_template) {
    KVASIR_CHECK(chat_template.error().message.find("chat template: ") == 0);
    return 0;
  }
  TemplateLimits limits;
  limits.steps_max = 20'000;
  limits.text_bytes_max = 64 * 1024;
  const auto pieces = chat_template->render(conversation(text), limits, 1'764'482'400);
  if (!pieces) {
    KVASIR_CHECK(!pieces.error().message.empty());
    return 0;
  }
  const std::string whole = joined_text(*pieces);
  KVASIR_CHECK(whole.size() <= limits.text_bytes_max && is_valid_utf8(whole));
  for (size_t i = 0; i < pieces->size(); ++i) {
    KVASIR_CHECK(!(*pieces)[i].text.empty());
    KVASIR_CHECK(i == 0 || (*pieces)[i].from_template != (*pieces)[i - 1].from_template);
  }
  chat_tokens(tokenizer, *pieces);
  return 0;
}
