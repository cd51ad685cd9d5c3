#include "pull/hub.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "gguf/text_check.h"
#include "pull/file_names.h"

namespace kvasir::pull {
namespace {

using Json = nlohmann::json;

// A listing is an array of objects that hold an object. Deeper values are left out, so that a
// hostile listing cannot make us build a tower.
constexpr int kDepthMax = 6;
constexpr size_t kFilesMax = 20'000;
// How many models an error lists.
constexpr size_t kShownMax = 40;

Error not_a_listing(std::string_view why) {
  return Error::corrupt("the hub's list of files is none: {}", why);
}

bool is_about_a_model(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return name.ends_with(".gguf") && !name.starts_with("mmproj") &&
         name.find("imatrix") == std::string_view::npos;
}

Result<void> take_entry(const Json& entry, std::vector<HubFile>& files) {
  if (!entry.is_object()) return not_a_listing("an entry is no object");
  const auto type = entry.find("type");
  if (type != entry.end() && *type != "file") return {};
  const auto path = entry.find("path");
  if (path == entry.end() || !path->is_string()) return not_a_listing("an entry has no path");
  HubFile file;
  file.path = path->get<std::string>();
  if (!file.path.ends_with(".gguf") || !is_file_path(file.path)) return {};
  const auto size = entry.find("size");
  if (size == entry.end() || !size->is_number_unsigned())
    return not_a_listing("'" + gguf::printable(file.path) + "' has no size");
  file.bytes = size->get<uint64_t>();
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    const auto oid = lfs->find("oid");
    if (oid == lfs->end() || !oid->is_string())
      return not_a_listing("'" + gguf::printable(file.path) + "' has no checksum");
    file.sha256 = oid->get<std::string>();
    if (file.sha256.starts_with("sha256:")) file.sha256.erase(0, 7);
    if (!is_sha256(file.sha256))
      return not_a_listing("'" + gguf::printable(file.path) + "' has a checksum that is none");
    if (const auto real = lfs->find("size"); real != lfs->end() && real->is_number_unsigned())
      file.bytes = real->get<uint64_t>();
  }
  if (file.bytes == 0 || file.bytes > kFileBytesMax)
    return not_a_listing("'" + gguf::printable(file.path) + "' has a size that no file has");
  if (files.size() == kFilesMax) return Error::limit("the hub lists more than {} files", kFilesMax);
  files.push_back(std::move(file));
  return {};
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

std::string list_of(const std::vector<const HubModel*>& models) {
  std::string text;
  for (size_t i = 0; i < models.size() && i < kShownMax; ++i)
    text += (i == 0 ? "" : ", ") + models[i]->name +
            (models[i]->complete() ? "" : " (parts are missing)");
  if (models.size() > kShownMax) text += fmt::format(" and {} more", models.size() - kShownMax);
  return text;
}

// Quantisations that say which model is meant, or files where they do not.
std::string choices_of(const std::vector<const HubModel*>& models) {
  std::map<std::string, int> uses;
  for (const HubModel* model : models) ++uses[model->quantization];
  std::string text;
  size_t shown = 0;
  for (const HubModel* model : models) {
    if (++shown > kShownMax) return text + ", ...";
    const bool is_clear = !model->quantization.empty() && uses[model->quantization] == 1;
    text +=
        (text.empty() ? ":" : ", :") + (is_clear ? model->quantization : model->files.front().path);
  }
  return text;
}

// A path as the name of one folder.
std::string one_part(std::string path) {
  std::replace(path.begin(), path.end(), '/', '~');
  return path;
}

Result<std::vector<HubFile>> list_files(const WebClient& web, const WebAddress& hub,
                                        const HubReference& reference) {
  KVASIR_TRY(WebAddress page,
             parse_web_address(fmt::format(
                 "{}/api/models/{}/{}/tree/{}?recursive=true", origin_text(hub),
                 reference.organization, reference.repository, encoded_part(reference.revision))));
  std::vector<HubFile> files;
  for (size_t pages = 0; pages < kListingPagesMax; ++pages) {
    WebAnswer answer;
    KVASIR_TRY(const std::string text, web.get_text(page, kListingBytesMax, answer));
    KVASIR_TRY(const std::vector<HubFile> more, parse_hub_listing(text));
    files.insert(files.end(), more.begin(), more.end());
    if (files.size() > kFilesMax) break;
    const std::string next = next_page(answer.head.link);
    if (next.empty()) return files;
    KVASIR_TRY(const WebAddress next_address, resolve_web_address(page, next));
    if (!same_origin(next_address, hub)) return not_a_listing("its next page is on another host");
    page = next_address;
  }
  return Error::limit("{}: the list of files is too long", reference_text(reference));
}

}  // namespace

Result<std::vector<HubFile>> parse_hub_listing(std::string_view json) {
  if (json.size() > kListingBytesMax) return Error::limit("the hub's list of files is too long");
  const auto shallow = [](int depth, Json::parse_event_t, const Json&) {
    return depth <= kDepthMax;
  };
  const Json listing = Json::parse(json.begin(), json.end(), shallow, false);
  if (listing.is_discarded()) return not_a_listing("not JSON");
  if (!listing.is_array()) return not_a_listing("not an array");
  std::vector<HubFile> files;
  for (const Json& entry : listing) KVASIR_TRY_VOID(take_entry(entry, files));
  return files;
}

std::string next_page(std::string_view link) {
  // <https://host/...>; rel="next", <...>; rel="prev"
  for (size_t at = link.find('<'); at != std::string_view::npos; at = link.find('<', at + 1)) {
    const size_t end = link.find('>', at);
    if (end == std::string_view::npos) return "";
    const size_t after = std::min(link.find('<', end), link.size());
    const std::string_view parameters = link.substr(end, after - end);
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos)
      return std::string(link.substr(at + 1, end - at - 1));
  }
  return "";
}

std::vector<HubModel> group_models(const std::vector<HubFile>& files) {
  std::map<std::pair<std::string, uint32_t>, std::map<uint32_t, HubFile>> groups;
  for (const HubFile& file : files) {
    if (!is_about_a_model(file.path)) continue;
    const auto split = parse_split_name(file.path);
    const std::string name =
        split ? split->prefix : file.path.substr(0, file.path.size() - std::string(".gguf").size());
    groups[{name, split ? split->count : 0}][split ? split->part : 1] = file;
  }
  std::vector<HubModel> models;
  for (const auto& [key, parts] : groups) {
    HubModel model;
    model.name = key.first;
    model.parts = std::max<uint32_t>(key.second, 1);
    for (const auto& [number, file] : parts) {
      model.files.push_back(file);
      model.bytes += file.bytes;
    }
    model.quantization = quantization_of(model.files.front().path);
    models.push_back(std::move(model));
  }
  return models;
}

Result<HubModel> choose_model(const std::vector<HubModel>& models, const HubReference& reference) {
  const std::string name = reference_text(reference);
  std::vector<const HubModel*> all, matching;
  const std::string wanted =
      upper(reference.selector.empty() ? std::string(kDefaultQuantization) : reference.selector);
  const auto split = parse_split_name(reference.selector);
  for (const HubModel& model : models) {
    all.push_back(&model);
    const bool matches =
        reference.selects_file()
            ? std::any_of(model.files.begin(), model.files.end(),
                          [&](const HubFile& file) { return file.path == reference.selector; })
            : model.quantization == wanted;
    if (matches) matching.push_back(&model);
  }
  if (all.empty()) return Error::not_found("{}: there are no models in GGUF files", name);
  if (matching.empty() && reference.selector.empty() && all.size() == 1) matching = all;
  if (matching.empty()) {
    return Error::not_found(
               "{}: there is no {}", name,
               reference.selector.empty() ? std::string(kDefaultQuantization) : reference.selector)
        .with_hint("there are " + choices_of(all));
  }
  if (matching.size() > 1) {
    return Error::invalid("{}: several models are {}", name, wanted)
        .with_hint("say which one: " + choices_of(matching));
  }
  if (!matching.front()->complete()) {
    return Error::not_found("{}: {} of {} parts are there: {}", name,
                            matching.front()->files.size(), matching.front()->parts,
                            list_of(matching));
  }
  return *matching.front();
}

Result<RemoteModel> find_hub_model(const WebClient& web, const WebAddress& hub,
                                   const HubReference& reference) {
  KVASIR_TRY(const std::vector<HubFile> files, list_files(web, hub, reference));
  const std::vector<HubModel> models = group_models(files);
  KVASIR_TRY(const HubModel chosen, choose_model(models, reference));

  RemoteModel model;
  HubReference complete = reference;
  if (complete.selector.empty() || !complete.selects_file())
    complete.selector =
        chosen.quantization.empty() ? chosen.files.front().path : chosen.quantization;
  else
    complete.selector = chosen.files.front().path;
  model.reference = reference_text(complete);
  model.origin = origin_text(hub);
  model.quantization = chosen.quantization;
  model.folder =
      fmt::format("hub/{}/{}/{}/{}/{}", origin_folder(hub), reference.organization,
                  reference.repository, one_part(reference.revision), one_part(chosen.name));
  if (!is_file_path(model.folder))
    return Error::unsupported("{}: its names make no folder", model.reference);
  for (const HubFile& file : chosen.files) {
    KVASIR_TRY(WebAddress address, parse_web_address(fmt::format(
                                       "{}/{}/{}/resolve/{}/{}", origin_text(hub),
                                       reference.organization, reference.repository,
                                       encoded_part(reference.revision), encoded_path(file.path))));
    model.files.push_back(
        {file.path.substr(file.path.rfind('/') + 1), std::move(address), file.bytes, file.sha256});
  }
  return model;
}

}  // namespace kvasir::pull
