#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kvasir::cli {
namespace {

constexpr std::string_view kBrokenPipe = "the reader of the output has gone";

}  // namespace

Output Output::standard() {
  return {"standard output", std::nullopt};
}

Result<Output> Output::open(const std::string& path) {
  if (path == "-") return standard();
  KVASIR_TRY(auto file, OutputFile::create(path));
  return Output(path, std::move(file));
}

Result<void> Output::write(std::string_view bytes) {
  const int descriptor = file_ ? file_->descriptor() : STDOUT_FILENO;
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      return Error::io("{}", kBrokenPipe);
    } else if (errno != EINTR) {
      return Error::io("{}: cannot write: {}", name_, std::strerror(errno));
    }
  }
  return {};
}

Result<void> Output::close() {
  if (!file_) return {};
  return file_->finish();
}

bool is_broken_pipe(const Error& error) {
  return error.kind == ErrorKind::kIo && error.message == kBrokenPipe;
}

Result<std::string> read_input(const std::string& path, size_t bytes_max) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard input" : path;
  int descriptor = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT) return Error::not_found("{}: no such file", name);
    return Error::io("{}: cannot read: {}", name, std::strerror(errno));
  }
  std::string bytes;
  Result<void> result;
  for (;;) {
    char piece[64 * 1024];
    ssize_t count = ::read(descriptor, piece, sizeof piece);
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      result = Error::io("{}: cannot read: {}", name, std::strerror(errno));
      break;
    }
    bytes.append(piece, static_cast<size_t>(count));
    if (bytes.size() > bytes_max) {
      result = Error::limit("{}: longer than {} bytes", name, bytes_max);
      break;
    }
  }
  if (!standard) ::close(descriptor);
  if (!result) return result.error();
  return bytes;
}

}  // namespace kvasir::cli
