// What the streams of chat and completions have in common: chunks of one head, progress, usage at
// the end, [DONE].
#pragma once

#include <string>
#include <utility>

#include "api/answer_parts.h"
#include "api/request.h"

namespace kvasir::api {

class OpenAiStream : public StreamEncoder {
 public:
  std::string progress(uint64_t done, uint64_t total) override;
  std::string end(const Usage& usage, const Details* details) override;
  std::string fail(const ApiError& error, std::string_view request_id) override;

 protected:
  OpenAiStream(const Generation& request, AnswerHead head)
      : head_(std::move(head)),
        options_(request.stream),
        details_(request.details),
        logprobs_(request.top_logprobs.has_value()) {}

  // The head of a chunk, in an object that the caller goes on with.
  virtual void write_chunk_head(JsonWriter& out) const = 0;

  const AnswerHead head_;
  const StreamOptions options_;
  const bool details_;
  const bool logprobs_;

 private:
  // A chunk without choices; the caller ends the object.
  JsonWriter empty_chunk(const Usage* usage) const;
};

}  // namespace kvasir::api
