#include "api/plain_answers.h"

#include "api/json_writer.h"
#include "text/utf8.h"

namespace kvasir::api {
namespace {

void write_model(JsonWriter& out, const ModelEntry& model) {
  out.begin_object();
  out.member("id", model.id);
  out.member("object", "model");
  out.member("created", model.created_s);
  out.member("owned_by", "kvasir");
  out.member("context_length", model.context);
  out.end_object();
}

std::string one_member(std::string_view name, std::string_view text) {
  JsonWriter out;
  out.begin_object();
  out.member(name, text);
  out.end_object();
  return out.take();
}

void write_piece(JsonWriter& out, std::string_view bytes) {
  out.key("piece");
  if (text::is_valid_utf8(bytes)) {
    out.text(bytes);
    return;
  }
  out.begin_array();
  for (const char c : bytes) out.number(uint64_t{static_cast<unsigned char>(c)});
  out.end_array();
}

}  // namespace

std::string models_answer(std::span<const ModelEntry> models) {
  JsonWriter out;
  out.begin_object();
  out.member("object", "list");
  out.key("data").begin_array();
  for (const ModelEntry& model : models) write_model(out, model);
  out.end_array();
  out.end_object();
  return out.take();
}

std::string model_answer(const ModelEntry& model) {
  JsonWriter out;
  write_model(out, model);
  return out.take();
}

ApiError model_not_found(std::string_view asked, std::span<const ModelEntry> models) {
  std::string known;
  for (const ModelEntry& model : models) {
    if (!known.empty()) known += ", ";
    known += model.id;
  }
  return ApiError::of(Code::kModelNotFound, "model", "there is no model '{:.128}', there is: {}",
                      asked, known);
}

std::string tokenize_answer(std::span<const TokenPiece> tokens, Pieces pieces) {
  JsonWriter out;
  out.begin_object();
  out.key("tokens").begin_array();
  for (const TokenPiece& token : tokens) {
    if (pieces == Pieces::kLeftOut) {
      out.number(int64_t{token.id});
      continue;
    }
    out.begin_object();
    out.member("id", token.id);
    write_piece(out, token.bytes);
    out.end_object();
  }
  out.end_array();
  out.end_object();
  return out.take();
}

std::string detokenize_answer(std::string_view text) {
  return one_member("content", text);
}

std::string apply_template_answer(std::string_view prompt) {
  return one_member("prompt", prompt);
}

std::string count_tokens_answer(uint64_t tokens) {
  return fmt::format(R"({{"input_tokens":{}}})", tokens);
}

std::string health_answer() {
  return one_member("status", "ok");
}

std::string unhealthy_answer(const ApiError& error) {
  JsonWriter out;
  out.begin_object();
  out.key("error").begin_object();
  out.member("code", info(error.code).status);
  out.member("message", error.message);
  out.member("type", info(error.code).type);
  out.end_object();
  out.end_object();
  return out.take();
}

std::string props_answer(const Props& props) {
  JsonWriter out;
  out.begin_object();
  out.member("model", props.model);
  out.member("fingerprint", props.fingerprint);
  out.member("build", props.build);
  out.member("total_slots", props.slots);
  out.key("default_generation_settings").begin_object();
  out.member("n_ctx", props.context);
  out.end_object();
  out.member("chat_template", props.chat_template);
  out.key("capabilities").begin_array();
  for (const std::string& capability : props.capabilities) out.text(capability);
  out.end_array();
  out.end_object();
  return out.take();
}

}  // namespace kvasir::api
