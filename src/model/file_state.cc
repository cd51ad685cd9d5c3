#include "model/file_state.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace kvasir::model {

Result<std::vector<FileState>> file_states(const gguf::ModelFile& file) {
  std::vector<FileState> states;
  for (size_t part = 0; part < file.parts(); ++part) {
    const MappedFile& mapped = file.part_file(part);
    struct stat status = {};
    if (::fstat(mapped.descriptor(), &status) != 0)
      return Error::io("{}: cannot stat: {}", mapped.path(), std::strerror(errno));
    std::error_code error;
    std::string path = std::filesystem::weakly_canonical(mapped.path(), error).string();
    if (error) return Error::io("{}: cannot find: {}", mapped.path(), error.message());
    states.push_back({std::move(path), static_cast<uint64_t>(status.st_size),
                      status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec});
  }
  return states;
}

}  // namespace kvasir::model
