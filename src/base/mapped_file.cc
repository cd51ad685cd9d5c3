#include "base/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kvasir {
namespace {

// What the SIGBUS handler may look at: fixed slots, written before a mapping is used, read without
// locks. More mappings than slots only means a less precise message.
struct MappingSlot {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  char path[256] = {};
};
std::array<MappingSlot, 64> mapping_slots;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

void remember(ByteSpan bytes, const std::string& path) {
  auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  for (MappingSlot& slot : mapping_slots) {
    uintptr_t free = 0;
    if (!slot.begin.compare_exchange_strong(free, begin)) continue;
    // Shown as it is, by a handler that cannot do much.
    const size_t shown = path.copy(slot.path, sizeof slot.path - 1);
    std::replace_if(slot.path, slot.path + shown, is_control, '?');
    slot.path[shown] = '\0';
    slot.end.store(begin + bytes.size());
    return;
  }
}

void forget(ByteSpan bytes) {
  auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  for (MappingSlot& slot : mapping_slots) {
    if (slot.begin.load() != begin) continue;
    slot.end.store(0);
    slot.begin.store(0);
    return;
  }
}

void write_text(const char* text) {
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

// Async-signal-safe: only atomics and write().
[[noreturn]] void on_sigbus(int, siginfo_t* info, void*) {
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (MappingSlot& slot : mapping_slots) {
    if (address < slot.begin.load() || address >= slot.end.load()) continue;
    write_text("error: ");
    write_text(slot.path);
    write_text(": the file was truncated or its disk failed while it was in use\n");
    write_text("hint:  restore the file and start again\n");
    ::_exit(1);
  }
  write_text("error: bus error outside any mapped file\n");
  ::_exit(1);
}

std::string last_error() {
  return std::strerror(errno);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // O_NONBLOCK: a FIFO is refused below instead of being waited for. It means nothing to files.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) {
    if (errno == ENOENT) return Error::not_found("{}: no such file", path);
    return Error::io("{}: cannot open: {}", path, last_error());
  }
  struct stat status;
  if (::fstat(file.descriptor_, &status) != 0)
    return Error::io("{}: cannot stat: {}", path, last_error());
  if (!S_ISREG(status.st_mode)) return Error::io("{}: not a regular file", path);
  if (!std::in_range<size_t>(status.st_size))
    return Error::limit("{}: {} bytes are too many to map on this machine", path, status.st_size);
  auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return Error::corrupt("{}: the file is empty", path);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor_, 0);
  if (memory == MAP_FAILED)
    return Error::io("{}: cannot map {} bytes: {}", path, size, last_error());
  file.bytes_ = {static_cast<const std::byte*>(memory), size};
  remember(file.bytes_, path);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.data() != nullptr) {
    forget(bytes_);
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

void install_sigbus_reporter() {
  struct sigaction action = {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace kvasir
