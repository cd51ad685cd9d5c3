#include "crypto/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "crypto/sodium.h"

namespace kvasir::crypto {
namespace {

constexpr size_t kDigits = 2 * sizeof(Seed);

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error io_error(const std::string& path, std::string_view what) {
  return Error::io("{}: cannot {}: {}", path, what, std::strerror(errno));
}

Result<Identity> load(const std::string& path, const File& file) {
  struct stat status;
  if (fstat(file.fd(), &status) != 0) return io_error(path, "examine it");
  if ((status.st_mode & 077) != 0)
    return Error::invalid("{}: others may read or write this key", path)
        .with_hint(fmt::format("chmod 600 {}", path));
  char text[kDigits + 2];
  const ssize_t n = read(file.fd(), text, sizeof text);
  if (n < 0) return io_error(path, "read");
  Seed seed;
  size_t seed_bytes = 0;
  const bool good = (n == kDigits || (n == kDigits + 1 && text[kDigits] == '\n')) &&
                    sodium_hex2bin(chars(seed.data()), seed.size(), text, kDigits, nullptr,
                                   &seed_bytes, nullptr) == 0 &&
                    seed_bytes == seed.size();
  sodium_memzero(text, sizeof text);
  if (!good)
    return Error::corrupt("{}: not a key of 64 hex digits", path)
        .with_hint("move it away and a new identity is made");
  Identity identity = Identity::from_seed(seed);
  sodium_memzero(seed.data(), seed.size());
  return identity;
}

// Under another name first: a file with the final name is always complete.
Result<void> create(const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  const File file(mkstemp(temporary.data()));  // mode 600
  if (file.fd() < 0) return io_error(path, "create");
  Seed seed = Identity::generate().seed();
  char text[kDigits + 1];
  sodium_bin2hex(text, sizeof text, chars(seed.data()), seed.size());
  text[kDigits] = '\n';
  const bool written =
      write(file.fd(), text, sizeof text) == ssize_t{sizeof text} && fsync(file.fd()) == 0;
  sodium_memzero(text, sizeof text);
  sodium_memzero(seed.data(), seed.size());
  // link() does not replace what another process has put there meanwhile.
  const bool linked = written && (link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int problem = errno;
  unlink(temporary.c_str());
  errno = problem;
  if (!linked) return io_error(path, "write");
  return {};
}

}  // namespace

Result<Identity> load_or_create_identity(const std::string& path) {
  need_sodium();
  if (access(path.c_str(), F_OK) != 0) {
    if (errno != ENOENT) return io_error(path, "reach it");
    KVASIR_TRY_VOID(create(path));
  }
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return io_error(path, "open");
  return load(path, file);
}

}  // namespace kvasir::crypto
