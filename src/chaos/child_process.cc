#include "chaos/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace kvasir::chaos {
namespace {

constexpr int kTraceDescriptor = 3;
// Children are our own program; this only keeps a mistake of it from filling the memory.
constexpr size_t kTextBytesMax = size_t{64} << 20;

struct Pipe {
  int read = -1, write = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    if (read >= 0) ::close(read);
    if (write >= 0) ::close(write);
  }
  bool open() {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read = ends[0];
    // Out of the way of the numbers that the child gives its descriptors.
    write = ::fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    ::close(ends[1]);
    return write >= 0 && ::fcntl(read, F_SETFL, O_NONBLOCK) == 0;
  }
  int take_read() { return std::exchange(read, -1); }
};

// In the child, between fork and exec. (One thread forks, so the heap may be used.)
[[noreturn]] void become(const ChildSetup& setup, pid_t parent, const Pipe& out, const Pipe& err,
                         const Pipe& trace) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it ended before the kernel knew
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out.write, STDOUT_FILENO);
  ::dup2(err.write, STDERR_FILENO);
  if (setup.has_trace) ::dup2(trace.write, kTraceDescriptor);
  for (const std::string& name : setup.without_variables) ::unsetenv(name.c_str());
  for (const auto& [name, value] : setup.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::string program = "kvasir";
  std::vector<std::string> arguments = setup.arguments;
  std::vector<char*> words = {program.data()};
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  ::execv("/proc/self/exe", words.data());
  ::_exit(127);
}

}  // namespace

PipeText::~PipeText() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PipeText::add_to(PollSet& polled) {
  polled.add(descriptor_, POLLIN, [this] { read_all(); });
}

void PipeText::read_all() {
  std::array<char, 16384> piece;
  while (descriptor_ >= 0) {
    const ssize_t count = ::read(descriptor_, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      ::close(std::exchange(descriptor_, -1));
    } else if (text_.size() + static_cast<size_t>(count) <= kTextBytesMax) {
      text_.append(piece.data(), static_cast<size_t>(count));
    }
  }
}

std::vector<std::string> PipeText::take_lines() {
  std::vector<std::string> lines;
  for (size_t end; (end = text_.find('\n', taken_)) != std::string::npos; taken_ = end + 1)
    lines.push_back(text_.substr(taken_, end - taken_));
  return lines;
}

void PipeText::drop_taken() {
  text_.erase(0, std::exchange(taken_, 0));
}

std::string end_text(const ChildEnd& end) {
  return end.exit_code ? fmt::format("exit code {}", *end.exit_code)
                       : fmt::format("signal {}", end.signal);
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildSetup& setup) {
  Pipe out, err, trace;
  if (!out.open() || !err.open() || (setup.has_trace && !trace.open()))
    return Error::io("cannot open a pipe: {}", std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id < 0) return Error::io("cannot start a process: {}", std::strerror(errno));
  if (id == 0) become(setup, parent, out, err, trace);
  std::unique_ptr<ChildProcess> child(new ChildProcess(id));
  child->out_.own(out.take_read());
  child->err_.own(err.take_read());
  child->trace_.own(trace.take_read());
  return child;
}

ChildProcess::~ChildProcess() {
  if (look()) return;
  signal(SIGKILL);
  int status = 0;
  while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::add_to(PollSet& polled) {
  out_.add_to(polled);
  err_.add_to(polled);
  trace_.add_to(polled);
}

const std::optional<ChildEnd>& ChildProcess::look() {
  int status = 0;
  if (end_ || ::waitpid(id_, &status, WNOHANG) != id_) return end_;
  end_ = ChildEnd();
  if (WIFEXITED(status))
    end_->exit_code = WEXITSTATUS(status);
  else
    end_->signal = WTERMSIG(status);
  for (PipeText* text : {&out_, &err_, &trace_}) text->read_all();
  return end_;
}

void ChildProcess::signal(int number) {
  if (!end_) ::kill(id_, number);
}

}  // namespace kvasir::chaos
