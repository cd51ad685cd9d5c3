// How much memory Linux would give this process: /proc/meminfo and the memory cgroups.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "engine/memory_fit.h"

namespace kvasir::engine {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// The number in a file that holds nothing else; nothing if it is absent or says "max".
std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value;
  if (file >> value) return value;
  return std::nullopt;
}

// The number after `key` in a file of lines "key number [unit]".
std::optional<uint64_t> read_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key) || line.size() == key.size() || line[key.size()] != ' ') continue;
    const size_t digit = line.find_first_of("0123456789", key.size());
    if (digit == std::string::npos) return std::nullopt;
    uint64_t value;
    const char* end = line.data() + line.size();
    if (std::from_chars(line.data() + digit, end, value).ec != std::errc()) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

// Where one version of cgroups keeps its numbers.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // field of memory.stat: file pages that would be dropped first
};
constexpr CgroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                   "/memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupFiles kVersion2 = {"/sys/fs/cgroup", "/memory.max", "/memory.current",
                                   "inactive_file"};

// What a cgroup and all those above it leave. A folder that is not there (a container sees its own
// group at the top, under the path that the host knows) is passed over.
uint64_t left_by(const std::string& root, const CgroupFiles& files, std::string group) {
  uint64_t left = kUnlimited;
  for (;;) {
    const std::string folder = fmt::format("{}{}{}", root, files.mount, group);
    const auto limit = read_number(folder + files.limit);
    const auto usage = read_number(folder + files.usage);
    if (limit && usage) {
      const uint64_t reclaimable =
          read_field(folder + "/memory.stat", files.reclaimable).value_or(0);
      const uint64_t held = *usage - std::min(*usage, reclaimable);
      left = std::min(left, *limit - std::min(*limit, held));
    }
    if (group.empty()) return left;
    group.resize(std::min(group.rfind('/'), group.size() - 1));
  }
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  uint64_t available = kUnlimited;
  if (const auto kib = read_field(root + "/proc/meminfo", "MemAvailable:"))
    available = *kib > kUnlimited / 1024 ? kUnlimited : *kib * 1024;

  // Lines "hierarchy:controllers:path"; version 2 is hierarchy 0 without controllers.
  std::ifstream cgroups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(cgroups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group.ends_with('/')) group.pop_back();
    if (controllers == ",,")
      available = std::min(available, left_by(root, kVersion2, std::move(group)));
    else if (controllers.find(",memory,") != std::string::npos)
      available = std::min(available, left_by(root, kVersion1, std::move(group)));
  }
  return available;
}

}  // namespace kvasir::engine
