// What a chat template is given of a request.
#pragma once

#include <string_view>

#include "api/request.h"
#include "text/template_value.h"

namespace kvasir::serve {

struct TemplateFacts {
  std::string_view bos, eos;
  // Others are told of tools in the system message, and of calls in the text of messages.
  bool knows_tools = false;
};

// kInvalidValue if the JSON of a tool or call is not readable.
api::Outcome<text::TemplateValue> template_context(const api::ChatRequest& request,
                                                   const TemplateFacts& facts);

}  // namespace kvasir::serve
