// A stranger's text -> Manifest. Only the one spelling that Manifest::text() writes is accepted, so
// that two readers cannot understand one manifest in two ways.
#include <charconv>
#include <limits>
#include <utility>

#include "gguf/manifest.h"
#include "gguf/text_check.h"

namespace kvasir::gguf {
namespace {

// The words of one line, taken from the front; each take fails with a reason.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  Result<std::string_view> word(std::string_view what) {
    if (ended_) return Error::corrupt("{} is missing", what);
    const size_t space = rest_.find(' ');
    const std::string_view word = rest_.substr(0, space);
    ended_ = space == std::string_view::npos;
    rest_.remove_prefix(ended_ ? rest_.size() : space + 1);
    if (word.empty()) return Error::corrupt("{} is empty", what);
    return word;
  }
  Result<uint64_t> number(std::string_view what) {
    KVASIR_TRY(std::string_view text, word(what));
    return parse_number(text, what);
  }
  Result<void> end() const {
    if (!ended_) return Error::corrupt("'{}' is too much", printable(rest_));
    return {};
  }

  static Result<uint64_t> parse_number(std::string_view text, std::string_view what) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || (text.size() > 1 && text[0] == '0'))
      return Error::corrupt("{} '{}' is no number", what, printable(text));
    return value;
  }

 private:
  std::string_view rest_;
  bool ended_ = false;
};

Result<void> parse_dims(std::string_view text, ManifestEntry& entry) {
  entry.n_dims = 0;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    if (entry.n_dims == entry.dims.size()) return Error::corrupt("more than 4 dimensions");
    KVASIR_TRY(entry.dims[entry.n_dims], Words::parse_number(text.substr(0, comma), "dimension"));
    ++entry.n_dims;
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  return {};
}

// "-", or "8-15".
Result<void> parse_unit(std::string_view text, ManifestEntry& entry) {
  if (text == "-") return {};
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos)
    return Error::corrupt("unit '{}' is no range of experts", printable(text));
  KVASIR_TRY(uint64_t first, Words::parse_number(text.substr(0, dash), "expert"));
  KVASIR_TRY(uint64_t last, Words::parse_number(text.substr(dash + 1), "expert"));
  if (first > last || last >= kUnitExpertsMax)
    return Error::corrupt("unit '{}' is no range of experts", printable(text));
  entry.unit = ExpertRange{static_cast<uint32_t>(first), static_cast<uint32_t>(last) + 1};
  return {};
}

Result<ManifestEntry> parse_tensor(Words words) {
  ManifestEntry entry;
  KVASIR_TRY(std::string_view name, words.word("the tensor's name"));
  KVASIR_TRY(std::string_view type, words.word("the type"));
  KVASIR_TRY(std::string_view dims, words.word("the shape"));
  KVASIR_TRY(std::string_view unit, words.word("the unit"));
  KVASIR_TRY(std::string_view sha256, words.word("the hash"));
  KVASIR_TRY(uint64_t part, words.number("the part"));
  KVASIR_TRY(entry.offset, words.number("the offset"));
  KVASIR_TRY(entry.bytes, words.number("the size"));
  KVASIR_TRY_VOID(words.end());
  entry.name = name;
  entry.sha256 = sha256;
  const TypeInfo* info = find_type(type);
  if (info == nullptr || info->name != type)
    return Error::corrupt("type '{}' is unknown", printable(type));
  entry.type = info->type;
  KVASIR_TRY_VOID(parse_dims(dims, entry));
  KVASIR_TRY_VOID(parse_unit(unit, entry));
  if (part > std::numeric_limits<uint32_t>::max()) return Error::corrupt("part {}", part);
  entry.part = static_cast<uint32_t>(part);
  return entry;
}

Result<ManifestPart> parse_part(Words words) {
  ManifestPart part;
  KVASIR_TRY(part.bytes, words.number("the size"));
  KVASIR_TRY(std::string_view name, words.word("the file's name"));
  KVASIR_TRY_VOID(words.end());
  auto decoded = percent_decoded(name);
  if (!decoded) return Error::corrupt("'{}' is no encoded file name", printable(name));
  part.name = std::move(*decoded);
  return part;
}

Result<ManifestKey> parse_key(Words words) {
  KVASIR_TRY(std::string_view name, words.word("the key's name"));
  KVASIR_TRY(std::string_view value, words.word("the value"));
  KVASIR_TRY_VOID(words.end());
  return ManifestKey{std::string(name), std::string(value)};
}

// The kinds of lines in the order in which they must come.
enum class Section : uint8_t { kMagic, kModel, kPart, kKey, kTensor, kEnd };

struct Contents {
  std::string model_hash;
  std::vector<ManifestPart> parts;
  std::vector<ManifestKey> keys;
  std::vector<ManifestEntry> entries;
  Section section = Section::kMagic;
};

Result<void> check_sorted(const std::vector<ManifestEntry>& entries) {
  if (entries.size() < 2) return {};
  const ManifestEntry& before = entries[entries.size() - 2];
  const ManifestEntry& last = entries.back();
  const int order = before.name.compare(last.name);
  if (order < 0) return {};
  if (order == 0 && before.unit && last.unit && before.unit->begin < last.unit->begin) return {};
  return Error::corrupt("tensor '{}' is not behind the one before", printable(last.name));
}

Result<void> enter(Contents& contents, Section section, Section from, Section from_too) {
  if (contents.section != from && contents.section != from_too)
    return Error::corrupt("this line does not belong here");
  contents.section = section;
  return {};
}

Result<void> parse_line(std::string_view line, Contents& contents) {
  if (contents.section == Section::kMagic) {
    if (line == "kvasir-manifest 1") {
      contents.section = Section::kModel;
      return {};
    }
    if (line.starts_with("kvasir-manifest "))
      return Error::unsupported("this is another version of manifests");
    return Error::corrupt("this is no manifest");
  }
  Words words(line);
  KVASIR_TRY(std::string_view kind, words.word("the kind of line"));
  if (kind == "model") {
    KVASIR_TRY_VOID(enter(contents, Section::kPart, Section::kModel, Section::kModel));
    KVASIR_TRY(contents.model_hash, words.word("the hash"));
    return words.end();
  }
  if (kind == "part") {
    KVASIR_TRY_VOID(enter(contents, Section::kPart, Section::kPart, Section::kPart));
    if (contents.parts.size() == kManifestPartsMax)
      return Error::limit("more than {} parts", kManifestPartsMax);
    KVASIR_TRY(ManifestPart part, parse_part(words));
    contents.parts.push_back(std::move(part));
    return {};
  }
  if (kind == "key") {
    KVASIR_TRY_VOID(enter(contents, Section::kKey, Section::kPart, Section::kKey));
    if (contents.keys.size() == kManifestKeysMax)
      return Error::limit("more than {} keys", kManifestKeysMax);
    KVASIR_TRY(ManifestKey key, parse_key(words));
    contents.keys.push_back(std::move(key));
    return {};
  }
  if (kind == "tensor") {
    KVASIR_TRY_VOID(enter(contents, Section::kTensor, Section::kKey, Section::kTensor));
    KVASIR_TRY(ManifestEntry entry, parse_tensor(words));
    contents.entries.push_back(std::move(entry));
    return check_sorted(contents.entries);
  }
  if (line == "end") return enter(contents, Section::kEnd, Section::kTensor, Section::kTensor);
  return Error::corrupt("'{}' is no kind of line", printable(kind));
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kManifestBytesMax)
    return Error::limit("a manifest of {} bytes is larger than {}", text.size(), kManifestBytesMax);
  Contents contents;
  size_t number = 0;
  while (contents.section != Section::kEnd) {
    ++number;
    const size_t end = text.find('\n');
    if (end == std::string_view::npos)
      return Error::corrupt("line {}: the manifest ends without its last line", number);
    auto parsed = parse_line(text.substr(0, end), contents);
    if (!parsed) return std::move(parsed.error()).in(fmt::format("line {}", number));
    text.remove_prefix(end + 1);
  }
  if (!text.empty()) return Error::corrupt("line {}: nothing may follow the end", number + 1);
  return Manifest::build(std::move(contents.model_hash), std::move(contents.parts),
                         std::move(contents.keys), std::move(contents.entries));
}

}  // namespace kvasir::gguf
