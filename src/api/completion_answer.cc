// Answers of OpenAI's /v1/completions: plain text, and the older form of logprobs.
#include <cmath>
#include <set>

#include "api/openai_stream.h"
#include "text/utf8.h"

namespace kvasir::api {
namespace {

void write_head(JsonWriter& out, const AnswerHead& head) {
  out.member("id", "cmpl-" + head.id);
  out.member("object", "text_completion");
  out.member("created", head.created_s);
  out.member("model", head.model);
  out.member("system_fingerprint", head.fingerprint);
}

uint64_t characters_begun(std::string_view bytes) {
  return static_cast<uint64_t>(std::count_if(
      bytes.begin(), bytes.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

// {"tokens","token_logprobs","top_logprobs","text_offset"}. offset: characters of the choice before
// these tokens; moved behind them.
void write_flat_logprobs(JsonWriter& out, std::span<const TokenLogprob> logprobs,
                         uint64_t& offset) {
  out.begin_object();
  out.key("tokens").begin_array();
  for (const TokenLogprob& token : logprobs) out.text(token.bytes);
  out.end_array();
  out.key("token_logprobs").begin_array();
  for (const TokenLogprob& token : logprobs) out.number(token.logprob);
  out.end_array();
  out.key("top_logprobs").begin_array();
  for (const TokenLogprob& token : logprobs) {
    if (std::isnan(token.logprob)) {
      out.null();
      continue;
    }
    // Parts of characters may read the same; a member may stand there only once.
    std::set<std::string> seen;
    out.begin_object();
    for (const TokenAlternative& other : token.top) {
      const std::string name = text::replace_invalid_bytes(other.bytes);
      if (seen.insert(name).second) out.member(name, other.logprob);
    }
    out.end_object();
  }
  out.end_array();
  out.key("text_offset").begin_array();
  for (const TokenLogprob& token : logprobs) {
    out.number(offset);
    offset += characters_begun(token.bytes);
  }
  out.end_array();
  out.end_object();
}

class CompletionStream final : public OpenAiStream {
 public:
  CompletionStream(const CompletionRequest& request, AnswerHead head)
      : OpenAiStream(request, std::move(head)),
        offsets_(request.prompts.size() * request.choices, 0) {}

  std::string begin(const Usage&) override { return {}; }

  std::string encode(const AnswerEvent& event) override {
    KVASIR_CHECK(event.choice < offsets_.size());
    if (const auto* delta = std::get_if<TextDelta>(&event.what)) {
      if (delta->text.empty() && (!logprobs_ || delta->logprobs.empty())) return {};
      return chunk(event.choice, *delta, {});
    }
    if (const auto* finished = std::get_if<Finished>(&event.what))
      return chunk(event.choice, {}, finish_name(finished->reason));
    return {};  // plain text has neither reasoning nor tools
  }

 private:
  void write_chunk_head(JsonWriter& out) const override { write_head(out, head_); }

  std::string chunk(uint32_t choice, const TextDelta& delta, std::string_view finish) {
    JsonWriter out;
    out.begin_object();
    write_chunk_head(out);
    out.key("choices").begin_array().begin_object();
    out.member("index", choice);
    out.member("text", delta.text);
    out.key("logprobs");
    if (logprobs_ && !delta.logprobs.empty()) {
      write_flat_logprobs(out, delta.logprobs, offsets_[choice]);
    } else {
      out.null();
    }
    out.key("finish_reason").text_or_null(finish);
    out.end_object().end_array();
    if (options_.include_usage) out.key("usage").null();
    out.end_object();
    return sse_data(out.str());
  }

  std::vector<uint64_t> offsets_;  // characters so far, per choice
};

}  // namespace

std::string completion_answer(const CompletionRequest& request, const AnswerHead& head,
                              std::span<const Choice> choices, const Usage& usage,
                              const Details* details) {
  JsonWriter out;
  out.begin_object();
  write_head(out, head);
  out.key("choices").begin_array();
  for (size_t i = 0; i < choices.size(); ++i) {
    out.begin_object();
    out.member("index", i);
    out.member("text", choices[i].joined(Part::Kind::kText));
    out.key("logprobs");
    if (request.top_logprobs) {
      uint64_t offset = 0;
      write_flat_logprobs(out, choices[i].logprobs, offset);
    } else {
      out.null();
    }
    out.member("finish_reason", finish_name(choices[i].reason));
    out.end_object();
  }
  out.end_array();
  out.key("usage");
  write_usage(out, usage);
  if (request.details && details != nullptr) {
    out.key("kvasir");
    write_details(out, *details);
  }
  out.end_object();
  return out.take();
}

std::unique_ptr<StreamEncoder> completion_stream(const CompletionRequest& request,
                                                 AnswerHead head) {
  return std::make_unique<CompletionStream>(request, std::move(head));
}

}  // namespace kvasir::api
