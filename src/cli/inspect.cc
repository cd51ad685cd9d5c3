// kvasir inspect: what a model file is, without loading it.
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/verbs.h"
#include "gguf/slice.h"
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

// A slice says other things than a model: which experts of which model it holds.
Json to_json(const gguf::Slice& slice, uint64_t file_bytes) {
  Json json;
  json["architecture"] = slice.architecture;
  json["name"] = slice.name;
  json["file_bytes"] = file_bytes;
  json["supported"] = false;
  json["why_unsupported"] = "the file is a slice: some experts of a model, and nothing else of it";
  json["slice"] = {{"source", slice.source},         {"experts", slice.expert_count()},
                   {"units", slice.n_units()},       {"bytes", slice.bytes()},
                   {"group_size", slice.group_size}, {"experts_per_layer", slice.n_experts},
                   {"n_embd", slice.n_embd},         {"width", slice.width}};
  for (const gguf::SliceLayer& layer : slice.layers) {
    Json types;
    for (const gguf::SliceMatrix& matrix : layer.matrices)
      types[std::string(gguf::role_name(matrix.role))] = gguf::type_info(matrix.type).name;
    json["slice"]["layers"].push_back({{"layer", layer.layer},
                                       {"first", layer.experts.begin},
                                       {"count", layer.experts.count()},
                                       {"types", types}});
  }
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

// "gate Q4_K, up Q4_K, down Q6_K"
std::string types_text(const gguf::SliceLayer& layer) {
  std::string text;
  for (const gguf::SliceMatrix& matrix : layer.matrices)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", gguf::role_name(matrix.role),
                        gguf::type_info(matrix.type).name);
  return text;
}

// Neighbouring layers that hold the same experts in the same types share a line.
void add_layers(const gguf::Slice& slice, Page& page) {
  for (size_t i = 0; i < slice.layers.size();) {
    const gguf::SliceLayer& first = slice.layers[i];
    std::vector<uint32_t> numbers;
    for (; i < slice.layers.size() && slice.layers[i].experts == first.experts &&
           types_text(slice.layers[i]) == types_text(first);
         ++i)
      numbers.push_back(slice.layers[i].layer);
    page.line(numbers.size() == 1 ? "layer" : "layers",
              fmt::format("{}: experts {}-{}, {}", ranges_text(numbers), first.experts.begin,
                          first.experts.end - 1, types_text(first)));
  }
}

std::string to_text(const gguf::Slice& slice, uint64_t file_bytes) {
  Page page;
  page.line("slice of", slice.name.empty() ? "a model without a name" : slice.name);
  page.line("model hash", slice.source);
  page.line("architecture", slice.architecture);
  page.line("file", bytes_text(file_bytes));
  page.line("experts", fmt::format("{} in {} of up to {}, {} ({} bytes)", slice.expert_count(),
                                   counted(slice.n_units(), "unit"), slice.group_size,
                                   bytes_text(slice.bytes()), slice.bytes()));
  page.line("in the model", fmt::format("{} experts per layer, n_embd {}, width {}",
                                        slice.n_experts, slice.n_embd, slice.width));
  add_layers(slice, page);
  page.line("note", "a worker computes these experts; nothing else of the model is here");
  page.line("note", "hashes were not checked: kvasir manifest FILE --check MANIFEST does");
  return page.text();
}

// Invalid UTF-8 in a file's strings becomes U+FFFD instead of an exception.
std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::string> slice_text(const InspectOptions& options) {
  KVASIR_TRY(const gguf::SliceFile file, gguf::SliceFile::open(options.path));
  return options.json ? dumped(to_json(file.slice(), file.file_bytes()))
                      : to_text(file.slice(), file.file_bytes());
}

}  // namespace

Result<int> inspect(const InspectOptions& options) {
  KVASIR_TRY(gguf::ModelFile file, gguf::ModelFile::open(options.path));
  std::string text;
  if (gguf::is_slice(file.metadata())) {
    KVASIR_TRY(text, slice_text(options));
  } else {
    KVASIR_TRY(const model::Inspection facts, model::inspect(file));
    text = options.json ? dumped(to_json(facts)) : to_text(facts);
  }
  KVASIR_TRY_VOID(Output::standard().write(text));
  return kSuccess;
}

}  // namespace kvasir::cli
