// Reads by io_uring: the kernel works on all of them, no thread of ours waits.
#include <liburing.h>

#include <cerrno>
#include <cstring>

#include "base/read_backend.h"

namespace kvasir {
namespace {

// 64 pieces of 1 MiB keep a fast disk busy for some 20 ms, in which nobody has to look after it.
constexpr unsigned kDepth = 64;

class IoUringBackend final : public ReadBackend {
 public:
  // 0, or -errno.
  int set_up() {
    const int result = ::io_uring_queue_init(kDepth, &ring_, 0);
    ready_ = result == 0;
    return result;
  }
  IoUringBackend() = default;
  ~IoUringBackend() override {
    if (ready_) ::io_uring_queue_exit(&ring_);
  }
  IoUringBackend(const IoUringBackend&) = delete;
  IoUringBackend& operator=(const IoUringBackend&) = delete;

  std::string_view name() const override { return "io_uring"; }
  size_t depth() const override { return kDepth; }

  void start(std::span<const PieceRead> pieces) override {
    for (const PieceRead& piece : pieces) {
      io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
      if (entry == nullptr) {  // filled by entries that the kernel would not take yet
        ::io_uring_submit(&ring_);
        entry = ::io_uring_get_sqe(&ring_);
      }
      if (entry == nullptr) {
        refused_.push_back({piece.slot, -EAGAIN});
        continue;
      }
      ::io_uring_prep_read(entry, piece.descriptor, piece.to, static_cast<unsigned>(piece.bytes),
                           piece.offset);
      ::io_uring_sqe_set_data64(entry, piece.slot);
    }
    ::io_uring_submit(&ring_);  // what it does not take now, wait() submits again
  }

  void wait(std::chrono::milliseconds patience, std::vector<PieceResult>& results) override {
    if (::io_uring_sq_ready(&ring_) != 0) ::io_uring_submit(&ring_);
    results.insert(results.end(), refused_.begin(), refused_.end());
    refused_.clear();
    io_uring_cqe* entry = nullptr;
    if (results.empty() && patience.count() > 0 && ::io_uring_peek_cqe(&ring_, &entry) != 0) {
      __kernel_timespec limit = {patience.count() / 1000, patience.count() % 1000 * 1'000'000};
      ::io_uring_wait_cqe_timeout(&ring_, &entry, &limit);
    }
    while (::io_uring_peek_cqe(&ring_, &entry) == 0) {
      results.push_back({static_cast<uint32_t>(::io_uring_cqe_get_data64(entry)), entry->res});
      ::io_uring_cqe_seen(&ring_, entry);
    }
  }

 private:
  io_uring ring_ = {};
  bool ready_ = false;
  std::vector<PieceResult> refused_;
};

}  // namespace

Result<std::unique_ptr<ReadBackend>> make_io_uring_backend() {
  auto backend = std::make_unique<IoUringBackend>();
  const int result = backend->set_up();
  if (result != 0)
    return Error::unsupported("no io_uring on this system: {}", std::strerror(-result));
  return std::unique_ptr<ReadBackend>(std::move(backend));
}

}  // namespace kvasir
