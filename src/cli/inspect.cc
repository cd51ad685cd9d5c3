// kvasir inspect: what a model file is, without loading it.
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/verbs.h"
#include "model/inspection.h"

namespace kvasir::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const model::Inspection& facts) {
  Json json;
  json["architecture"] = facts.architecture;
  json["name"] = facts.name;
  json["file_bytes"] = facts.file_bytes;
  json["weight_bytes"] = facts.weight_bytes;
  json["parts"] = facts.parts;
  json["tensors"] = facts.tensors;
  for (const auto& [type, use] : facts.types)
    json["types"][type] = {{"tensors", use.tensors}, {"bytes", use.bytes}};
  json["supported"] = facts.supported;
  if (!facts.supported) {
    json["why_unsupported"] = facts.why_unsupported;
    json["notes"] = facts.notes;
    return json;
  }
  const model::HyperParameters& hp = facts.hp;
  json["layers"] = {{"main", hp.n_layers},
                    {"mtp", hp.n_mtp_blocks},
                    {"attention", hp.n_attention_layers()},
                    {"delta_net", hp.n_delta_layers()}};
  json["context_length"] = hp.context_length;
  json["n_embd"] = hp.n_embd;
  json["n_vocab"] = hp.n_vocab;
  json["experts"] = {{"per_layer", hp.n_experts},
                     {"active", hp.n_experts_used},
                     {"total", facts.experts_total},
                     {"total_main", facts.experts_main},
                     {"width", hp.expert_width},
                     {"shared_width", hp.shared_expert_width},
                     {"bytes_min", facts.expert_bytes_min},
                     {"bytes_mean", facts.expert_bytes_mean},
                     {"bytes_max", facts.expert_bytes_max},
                     {"all_bytes", facts.all_expert_bytes},
                     {"share_of_weights", facts.expert_share},
                     {"dimension", facts.expert_dimension}};
  json["kv_bytes_per_token"] = facts.kv_bytes_per_token_f16;
  json["kv_bytes_per_token_f32"] = facts.kv_bytes_per_token_f32;
  json["state_bytes_per_sequence"] = facts.state_bytes_per_sequence;
  json["notes"] = facts.notes;
  return json;
}

class Page {
 public:
  void line(std::string_view name, std::string_view value) {
    text_ += fmt::format("{:<20}{}\n", name, on_one_line(value));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string to_text(const model::Inspection& facts) {
  Page page;
  page.line("architecture", facts.architecture);
  page.line("name", facts.name);
  page.line("file", fmt::format("{} in {} {}, {} tensors", bytes_text(facts.file_bytes),
                                facts.parts, facts.parts == 1 ? "part" : "parts", facts.tensors));
  page.line("weights",
            fmt::format("{} ({} bytes)", bytes_text(facts.weight_bytes), facts.weight_bytes));
  for (const auto& [type, use] : facts.types) {
    page.line("", fmt::format("{:<8}{:>5} tensors  {:>10}  {:5.1f} %", type, use.tensors,
                              bytes_text(use.bytes),
                              100.0 * static_cast<double>(use.bytes) /
                                  static_cast<double>(std::max<uint64_t>(facts.weight_bytes, 1))));
  }
  if (facts.supported) {
    const model::HyperParameters& hp = facts.hp;
    page.line("layers", fmt::format("{} + {} MTP ({} full attention, {} delta-net)", hp.n_layers,
                                    hp.n_mtp_blocks, hp.n_attention_layers(), hp.n_delta_layers()));
    page.line("n_embd", std::to_string(hp.n_embd));
    page.line("vocabulary", std::to_string(hp.n_vocab));
    page.line("context", fmt::format("{} tokens", hp.context_length));
    page.line("experts",
              fmt::format("{} per layer, {} active, {} in all ({} without MTP)", hp.n_experts,
                          hp.n_experts_used, facts.experts_total, facts.experts_main));
    page.line("bytes per expert", fmt::format("{} min, {:.0f} mean, {} max", facts.expert_bytes_min,
                                              facts.expert_bytes_mean, facts.expert_bytes_max));
    page.line("share of weights", fmt::format("{:.1f} % are experts ({})", facts.expert_share * 100,
                                              bytes_text(facts.all_expert_bytes)));
    page.line("expert dimension",
              fmt::format("{} (slowest varying) counts experts", facts.expert_dimension));
    page.line("KV per token",
              fmt::format("{} bytes (f16), {} bytes (f32)", facts.kv_bytes_per_token_f16,
                          facts.kv_bytes_per_token_f32));
    page.line("state per sequence", fmt::format("{} bytes", facts.state_bytes_per_sequence));
  } else {
    page.line("cannot run here", facts.why_unsupported);
  }
  for (const std::string& note : facts.notes) page.line("note", note);
  return page.text();
}

}  // namespace

Result<int> inspect(const InspectOptions& options) {
  KVASIR_TRY(gguf::ModelFile file, gguf::ModelFile::open(options.path));
  KVASIR_TRY(model::Inspection facts, model::inspect(file));
  Output output = Output::standard();
  // Invalid UTF-8 in a file's strings becomes U+FFFD instead of an exception.
  const std::string text =
      options.json ? to_json(facts).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                   : to_text(facts);
  KVASIR_TRY_VOID(output.write(text));
  return kSuccess;
}

}  // namespace kvasir::cli
