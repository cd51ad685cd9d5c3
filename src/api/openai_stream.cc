#include "api/openai_stream.h"

namespace kvasir::api {

std::string OpenAiStream::progress(uint64_t done, uint64_t total) {
  if (!options_.return_progress) return StreamEncoder::progress(done, total);
  JsonWriter out = empty_chunk(nullptr);
  write_progress(out, done, total);
  out.end_object();
  return sse_data(out.str());
}

std::string OpenAiStream::end(const Usage& usage, const Details* details) {
  std::string bytes;
  const bool with_details = details_ && details != nullptr;
  if (options_.include_usage || with_details) {
    JsonWriter out = empty_chunk(options_.include_usage ? &usage : nullptr);
    if (with_details) {
      out.key("kvasir");
      write_details(out, *details);
    }
    out.end_object();
    bytes += sse_data(out.str());
  }
  bytes += kSseDone;
  return bytes;
}

std::string OpenAiStream::fail(const ApiError& error, std::string_view request_id) {
  return sse_data(error_body(error, Family::kOpenAi, request_id));
}

JsonWriter OpenAiStream::empty_chunk(const Usage* usage) const {
  JsonWriter out;
  out.begin_object();
  write_chunk_head(out);
  out.key("choices").begin_array().end_array();
  if (usage != nullptr) {
    out.key("usage");
    write_usage(out, *usage);
  } else if (options_.include_usage) {
    out.key("usage").null();
  }
  return out;
}

}  // namespace kvasir::api
