#include "pull/model_reference.h"

#include <algorithm>

#include "gguf/text_check.h"
#include "pull/file_names.h"
#include "pull/web_address.h"

namespace kvasir::pull {
namespace {

constexpr size_t kReferenceBytesMax = 8192;
constexpr size_t kNameBytesMax = 96;  // as the public hub has it
constexpr size_t kRevisionBytesMax = 200;
constexpr size_t kSelectorBytesMax = 512;

Error wrong(std::string_view text, std::string_view why) {
  return Error::invalid("'{}' names no model: {}", gguf::printable(text), why)
      .with_hint("a model is a file, https://host/model.gguf or hf:org/repo:Q4_K_M");
}

// Of an organisation or a repository: letters, digits, '-', '_', '.'; neither end a '-' or '.'.
bool is_hub_name(std::string_view name) {
  const auto is_alnum = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > kNameBytesMax) return false;
  if (!is_alnum(name.front()) && name.front() != '_') return false;
  if (name.back() == '.' || name.back() == '-' || name.find("..") != std::string_view::npos)
    return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_selector(std::string_view text) {
  if (text.size() > kSelectorBytesMax) return false;
  if (text.ends_with(".gguf")) return is_file_path(text);
  return is_hub_name(text);
}

Result<HubReference> parse_hub(std::string_view text, std::string_view whole) {
  HubReference hub;
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    hub.revision = text.substr(at + 1);
    if (hub.revision.size() > kRevisionBytesMax || !is_file_path(hub.revision))
      return wrong(whole, "what stands after '@' is no revision");
    text = text.substr(0, at);
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    hub.selector = text.substr(colon + 1);
    if (!is_selector(hub.selector))
      return wrong(whole, "what stands after ':' is neither a quantisation nor a .gguf file");
    text = text.substr(0, colon);
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return wrong(whole, "it has no organisation/repository");
  hub.organization = text.substr(0, slash);
  hub.repository = text.substr(slash + 1);
  if (!is_hub_name(hub.organization) || !is_hub_name(hub.repository))
    return wrong(whole, "organisation and repository have letters, digits, '-', '_' and '.' only");
  return hub;
}

// The page of a file, as copied from a browser: "org/repo/blob/main/folder/x.gguf". Empty: none.
std::string reference_of_page(std::string_view path) {
  for (std::string_view kind : {"/blob/", "/resolve/"}) {
    const size_t at = path.find(kind);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = path.substr(at + kind.size());
    const size_t slash = rest.find('/');
    if (slash == std::string_view::npos || !rest.ends_with(".gguf")) return "";
    return fmt::format("{}:{}@{}", path.substr(0, at), rest.substr(slash + 1),
                       rest.substr(0, slash));
  }
  return "";
}

std::optional<std::string_view> without(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

Result<ModelReference> hub_reference(std::string_view text, std::string_view whole) {
  ModelReference reference;
  reference.kind = ModelReference::Kind::kHub;
  KVASIR_TRY(reference.hub, parse_hub(text, whole));
  return reference;
}

Result<ModelReference> file_reference(std::string_view path, std::string_view whole) {
  if (auto rest = without(path, "//")) {
    if (!rest->starts_with("/")) return wrong(whole, "files are on this machine");
    path = *rest;
  }
  if (path.empty()) return wrong(whole, "it names no file");
  return ModelReference{ModelReference::Kind::kPath, std::string(path), "", {}};
}

Result<ModelReference> url_reference(std::string_view text) {
  KVASIR_TRY(const WebAddress address, parse_web_address(text));
  if (!address.path.ends_with(".gguf") || !is_file_name(last_path_part(address)))
    return wrong(text, "the address of a file ends in NAME.gguf");
  return ModelReference{ModelReference::Kind::kUrl, "", address.text, {}};
}

// "org/repo:QUANT", and not "./repo:QUANT" or "folder/model.gguf".
bool is_bare_hub(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view front = text.substr(0, colon);
  const size_t slash = front.find('/');
  return slash != std::string_view::npos && is_hub_name(front.substr(0, slash)) &&
         is_hub_name(front.substr(slash + 1));
}

}  // namespace

Result<ModelReference> parse_model_reference(std::string_view text) {
  if (text.empty()) return wrong(text, "it is empty");
  if (text.size() > kReferenceBytesMax) return wrong(text, "it is too long");
  if (text.find('\0') != std::string_view::npos) return wrong(text, "it holds a NUL");
  if (auto rest = without(text, "file:")) return file_reference(*rest, text);
  if (auto rest = without(text, "hf:")) return hub_reference(*rest, text);
  if (text.starts_with("swarm:") || text.starts_with("ws://") || text.starts_with("wss://"))
    return wrong(text, "it is a swarm; kvasir worker --connect joins one");
  for (std::string_view host : {"hf.co/", "huggingface.co/"}) {
    auto rest = without(text, host);
    if (!rest) rest = without(text, std::string("https://").append(host));
    if (!rest) continue;
    if (const std::string page = reference_of_page(rest->substr(0, rest->find('?'))); !page.empty())
      return hub_reference(page, text);
    return hub_reference(*rest, text);
  }
  if (text.find("://") != std::string_view::npos) return url_reference(text);
  if (is_bare_hub(text)) return hub_reference(text, text);
  return ModelReference{ModelReference::Kind::kPath, std::string(text), "", {}};
}

std::string reference_text(const HubReference& reference) {
  std::string text = "hf:" + reference.organization + "/" + reference.repository;
  if (!reference.selector.empty()) text += ":" + reference.selector;
  if (reference.revision != kDefaultRevision) text += "@" + reference.revision;
  return text;
}

std::string reference_text(const ModelReference& reference) {
  switch (reference.kind) {
    case ModelReference::Kind::kPath:
      return "file:" + reference.path;
    case ModelReference::Kind::kUrl:
      return reference.url;
    case ModelReference::Kind::kHub:
      break;
  }
  return reference_text(reference.hub);
}

}  // namespace kvasir::pull
