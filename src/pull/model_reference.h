// What a person writes to name a model.
//
//   reference := path | "file:" path | url | hub
//   hub       := ("hf:" | "hf.co/" | "huggingface.co/")? org "/" repo (":" selector)? ("@"
//   revision)? selector  := a quantisation such as Q4_K_M, or the path of a .gguf file in the
//   repository
//
// Without a prefix a hub reference needs its selector: "org/repo" alone is a path.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace kvasir::pull {

// What is taken where a reference does not say it.
inline constexpr std::string_view kDefaultQuantization = "Q4_K_M";
inline constexpr std::string_view kDefaultRevision = "main";

struct HubReference {
  std::string organization;
  std::string repository;
  std::string selector;  // empty: kDefaultQuantization, or the only model there is
  std::string revision = std::string(kDefaultRevision);

  bool operator==(const HubReference&) const = default;
  bool selects_file() const { return selector.ends_with(".gguf"); }
};

struct ModelReference {
  enum class Kind : uint8_t { kPath, kUrl, kHub };
  Kind kind = Kind::kPath;
  std::string path;  // kPath
  std::string url;   // kUrl: of one .gguf file, normalised
  HubReference hub;  // kHub
};

// kInvalid with the reason. Reads no file: whoever may mean a path looks for it first.
Result<ModelReference> parse_model_reference(std::string_view text);
// Which parse_model_reference() reads as the same.
std::string reference_text(const ModelReference& reference);
std::string reference_text(const HubReference& reference);

}  // namespace kvasir::pull
