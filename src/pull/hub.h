// A hub of models: what a repository holds, and which of it a reference means. Talks the public
// hub's interface: GET /api/models/ORG/REPO/tree/REV?recursive=true lists files, and
// /ORG/REPO/resolve/REV/PATH leads to one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pull/model_reference.h"
#include "pull/remote_model.h"
#include "pull/web_client.h"

namespace kvasir::pull {

inline constexpr std::string_view kPublicHub = "https://huggingface.co";

struct HubFile {
  std::string path;  // in the repository, checked by is_file_path()
  uint64_t bytes = 0;
  std::string sha256;  // of the whole file; empty if the hub keeps it without one
};

inline constexpr size_t kListingBytesMax = size_t{8} * 1024 * 1024;
inline constexpr size_t kListingPagesMax = 32;

// The .gguf files of one page of a listing. Pure. Entries whose path is no file path are left out.
// kCorrupt if the text is no listing, or a checksum or a size is none.
Result<std::vector<HubFile>> parse_hub_listing(std::string_view json);
// The address that a Link header calls "next"; empty if none.
std::string next_page(std::string_view link);

// Files that belong together: one, or all parts of a split model in their order.
struct HubModel {
  std::string name;          // path without ".gguf" and the number of a part
  std::string quantization;  // from the name; may be empty
  std::vector<HubFile> files;
  uint64_t bytes = 0;
  uint32_t parts = 1;  // how many there should be

  bool complete() const { return files.size() == parts; }
};
// In the order of their names, without projectors and importance matrices.
std::vector<HubModel> group_models(const std::vector<HubFile>& files);
// kNotFound or kInvalid with a list of what there is, if `reference` means none or several.
Result<HubModel> choose_model(const std::vector<HubModel>& models, const HubReference& reference);

// Lists and chooses. `hub` is kPublicHub or another that talks like it.
Result<RemoteModel> find_hub_model(const WebClient& web, const WebAddress& hub,
                                   const HubReference& reference);

}  // namespace kvasir::pull
