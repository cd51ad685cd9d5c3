#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace kvasir {

Result<OutputFile> OutputFile::create(const std::string& path) {
  const auto refused = [&](int error) {
    return Error::io("{}: cannot create: {}", path, std::strerror(error));
  };
  std::string target = path;
  std::string partial = path + ".partial";
  mode_t mode = 0666;  // less the umask
  struct stat status;
  const bool exists = ::stat(path.c_str(), &status) == 0;
  const bool replaces = exists && S_ISREG(status.st_mode);
  // Replacing a file asks no leave of it, only of its folder.
  if (exists && ::access(path.c_str(), W_OK) != 0) return refused(errno);
  if (replaces) {
    std::error_code error;
    target = std::filesystem::canonical(path, error).string();
    if (error) return refused(error.value());
    partial = target + ".partial";
    mode = status.st_mode & 0777;
  } else if (exists) {
    partial.clear();
  }
  const std::string& opened = partial.empty() ? target : partial;
  int descriptor = ::open(opened.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (descriptor < 0) return refused(errno);
  // Some file systems know no permissions; then there was nothing to keep.
  if (replaces) static_cast<void>(::fchmod(descriptor, mode));
  return OutputFile(path, std::move(target), std::move(partial), descriptor);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : name_(std::move(other.name_)),
      target_(std::move(other.target_)),
      partial_(std::move(other.partial_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Result<void> OutputFile::write(ByteSpan bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error::io("{}: cannot write: {}", name_, std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> OutputFile::grow_to(uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0)
    return Error::io("{}: cannot grow to {} bytes: {}", name_, bytes, std::strerror(errno));
  return {};
}

Result<void> OutputFile::finish() {
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (closed && (partial_.empty() || ::rename(partial_.c_str(), target_.c_str()) == 0)) return {};
  const int error = errno;
  if (!partial_.empty()) ::unlink(partial_.c_str());
  return Error::io("{}: cannot finish writing: {}", name_, std::strerror(error));
}

}  // namespace kvasir
