#include "gguf/model_file.h"

#include <sys/stat.h>

#include <optional>

#include "gguf/text_check.h"

namespace kvasir::gguf {
namespace {

// Every part holds a file descriptor. Larger: an ordinary process runs out of them.
constexpr uint64_t kPartsMax = 1000;
// How many missing files a message names before it only counts them.
constexpr size_t kMissingShown = 32;

// "<prefix>-00002-of-00003.gguf"; part is 1-based as in the name.
struct PartName {
  std::string prefix;
  uint64_t part = 0;
  uint64_t count = 0;

  std::string of(uint64_t other) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, other, count);
  }
};

std::optional<uint64_t> five_digits(std::string_view text) {
  uint64_t number = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return number;
}

std::optional<PartName> parse_part_name(std::string_view path) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (path.size() < kTail.size()) return std::nullopt;
  std::string_view tail = path.substr(path.size() - kTail.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf")
    return std::nullopt;
  auto part = five_digits(tail.substr(1, 5));
  auto count = five_digits(tail.substr(10, 5));
  if (!part || !count || *part < 1 || *part > *count) return std::nullopt;
  return PartName{std::string(path.substr(0, path.size() - kTail.size())), *part, *count};
}

bool exists(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0;
}

// All parts must be there before any is read: nobody wants to learn of the third missing file after
// having fetched the second.
Result<void> check_all_present(const PartName& name) {
  std::string list;
  size_t missing = 0;
  for (uint64_t part = 1; part <= name.count; ++part) {
    std::string path = name.of(part);
    if (exists(path)) continue;
    if (++missing <= kMissingShown) list += (list.empty() ? "" : ", ") + path;
  }
  if (missing == 0) return {};
  if (missing > kMissingShown) list += fmt::format(" and {} more", missing - kMissingShown);
  return Error::not_found("{} of {} parts are missing: {}", missing, name.count, list)
      .with_hint("put all parts of the model into the same folder");
}

struct OpenPart {
  MappedFile file;
  Header header;
};

Result<OpenPart> open_part(const std::string& path) {
  KVASIR_TRY(auto file, MappedFile::open(path));
  auto header = parse_header(file.bytes());
  if (!header) return std::move(header.error()).in(path);
  return OpenPart{std::move(file), std::move(*header)};
}

// split.* of one part must agree with its file name and with the first part.
Result<void> check_split_keys(const Metadata& metadata, const PartName& name, uint64_t part,
                              uint64_t n_tensors) {
  KVASIR_TRY(auto count, metadata.get_uint("split.count"));
  if (count != name.count)
    return Error::corrupt("key 'split.count' is {}, but the file is named as one of {} parts",
                          count, name.count);
  KVASIR_TRY(auto number, metadata.get_uint("split.no"));
  if (number != part - 1)
    return Error::corrupt("key 'split.no' is {}, but must be {} in part {}", number, part - 1,
                          part);
  KVASIR_TRY(auto tensors, metadata.get_uint_or("split.tensors.count", n_tensors));
  if (tensors != n_tensors)
    return Error::corrupt("key 'split.tensors.count' is {}, but {} in the first part", tensors,
                          n_tensors);
  return {};
}

Result<std::vector<OpenPart>> open_split(const PartName& name) {
  if (name.count > kPartsMax)
    return Error::limit("{}: {} parts are more than {}", name.of(1), name.count, kPartsMax);
  KVASIR_TRY_VOID(check_all_present(name));
  std::vector<OpenPart> parts;
  uint64_t n_tensors_said = 0;
  uint64_t n_tensors = 0;
  for (uint64_t part = 1; part <= name.count; ++part) {
    std::string path = name.of(part);
    KVASIR_TRY(auto opened, open_part(path));
    if (part == 1) {
      auto said = opened.header.metadata.get_uint("split.tensors.count");
      if (!said) return std::move(said.error()).in(path);
      n_tensors_said = *said;
    }
    auto agrees = check_split_keys(opened.header.metadata, name, part, n_tensors_said);
    if (!agrees) return std::move(agrees.error()).in(path);
    n_tensors += opened.header.tensors.size();
    parts.push_back(std::move(opened));
  }
  if (n_tensors != n_tensors_said)
    return Error::corrupt("{}: key 'split.tensors.count' is {}, but the {} parts hold {} tensors",
                          name.of(1), n_tensors_said, name.count, n_tensors);
  return parts;
}

// The one file, or all parts in their order.
Result<std::vector<OpenPart>> open_all(const std::string& path) {
  std::optional<PartName> name = parse_part_name(path);
  if (name && name->count <= kPartsMax && !exists(path)) KVASIR_TRY_VOID(check_all_present(*name));
  KVASIR_TRY(auto named, open_part(path));

  auto split_count = named.header.metadata.get_uint_or("split.count", 1);
  if (!split_count) return std::move(split_count.error()).in(path);
  if (*split_count > 1) {
    if (name && name->count == *split_count) return open_split(*name);
    return Error::corrupt("{}: key 'split.count' says one of {} parts, the file's name does not",
                          path, *split_count)
        .with_hint("name the parts <name>-00001-of-<count>.gguf and so on, in one folder");
  }
  std::vector<OpenPart> single;
  single.push_back(std::move(named));
  return single;
}

}  // namespace

Result<ModelFile> ModelFile::open(const std::string& path) {
  KVASIR_TRY(auto opened, open_all(path));
  ModelFile model;
  for (OpenPart& part : opened)
    model.parts_.push_back({std::move(part.file), std::move(part.header)});

  // From here on nothing is added to parts_ and its headers, so pointers into them stay good, also
  // when the model is moved.
  for (size_t part = 0; part < model.parts_.size(); ++part) {
    ByteSpan bytes = model.parts_[part].file.bytes();
    for (const TensorInfo& info : model.parts_[part].header.tensors) {
      auto [other, is_new] = model.index_.emplace(info.name, model.tensors_.size());
      if (!is_new)
        return Error::corrupt("{}: tensor '{}' is also in {}", model.parts_[part].file.path(),
                              printable(info.name),
                              model.parts_[model.tensors_[other->second].part].file.path());
      // Inside the file, as the parser has checked, so both fit a size_t.
      ByteSpan data =
          bytes.subspan(static_cast<size_t>(info.offset), static_cast<size_t>(info.bytes));
      model.tensors_.push_back({&info, part, data});
    }
  }
  return model;
}

const TensorView* ModelFile::find(std::string_view name) const {
  auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

uint64_t ModelFile::file_bytes() const {
  uint64_t sum = 0;
  for (const Part& part : parts_) sum += part.file.bytes().size();
  return sum;
}

uint64_t ModelFile::tensor_bytes() const {
  uint64_t sum = 0;
  for (const TensorView& tensor : tensors_) sum += tensor.info->bytes;
  return sum;
}

}  // namespace kvasir::gguf
