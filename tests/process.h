// Runs a real process in a test: its output, its exit code, its signals, with a deadline.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace kvasir::testing {

struct ProcessOptions {
  std::map<std::string, std::string> environment;  // added to the test's own
  std::string stdin_text;
  std::string stdout_path;  // instead of being captured
  std::chrono::seconds deadline{120};
};

struct ProcessResult {
  int exit_code = -1;  // -1: ended by a signal or killed at the deadline
  std::string out;
  std::string err;
};

// One process. One thread. What still runs at destruction is killed.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const ProcessOptions& options)
      : deadline_(Clock::now() + options.deadline) {
    ::signal(SIGPIPE, SIG_IGN);  // the process may end before it has read its input
    int in[2], out[2], err[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 ||
        ::pipe2(err, O_CLOEXEC) != 0) {
      std::abort();
    }
    id_ = ::fork();
    if (id_ == 0) become(arguments, options, in[0], out[1], err[1]);
    ::close(in[0]);
    ::close(out[1]);
    ::close(err[1]);
    in_ = in[1];
    out_ = out[0];
    err_ = err[0];
    for (int descriptor : {in_, out_, err_}) ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
    to_write_ = options.stdin_text;
  }

  ~Process() {
    if (id_ > 0 && !ended_) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
    close_input();
    close_output();
    if (err_ >= 0) ::close(err_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void write(const std::string& text) { to_write_ += text; }
  pid_t id() const { return id_; }
  void signal(int number) const { ::kill(id_, number); }
  void close_output() {
    if (out_ >= 0) ::close(out_);
    out_ = -1;
  }
  const std::string& out() const { return out_text_; }
  const std::string& err() const { return err_text_; }

  // Until `condition` holds: false if the process closed its output or the deadline passed first.
  template <typename Condition>
  bool wait_for(Condition condition) {
    while (!condition()) {
      if (!step()) return false;
    }
    return true;
  }

  // Until the process has a handler for a signal: false if the deadline passed first. The kernel
  // tells nobody, so it is asked again and again.
  bool wait_for_handler(int number) const {
    while (Clock::now() < deadline_) {
      std::ifstream status("/proc/" + std::to_string(id_) + "/status");
      for (std::string word; status >> word;) {
        if (word != "SigCgt:") continue;
        uint64_t caught = 0;
        status >> std::hex >> caught;
        if ((caught >> (number - 1) & 1) != 0) return true;
        break;
      }
      ::poll(nullptr, 0, 2);
    }
    return false;
  }

  // The end of the input, then of the process.
  ProcessResult finish() {
    input_ends_ = true;
    while (step()) {
    }
    if (Clock::now() >= deadline_) {
      ADD_FAILURE() << "still running at the deadline; it said:\n" << out_text_ << err_text_;
      ::kill(id_, SIGKILL);
    }
    int status = 0;
    ::waitpid(id_, &status, 0);
    ended_ = true;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out_text_, err_text_};
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[noreturn]] static void become(const std::vector<std::string>& arguments,
                                  const ProcessOptions& options, int in, int out, int err) {
    if (!options.stdout_path.empty()) out = ::open(options.stdout_path.c_str(), O_WRONLY);
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    ::signal(SIGPIPE, SIG_DFL);
    for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> words;
    for (const std::string& argument : arguments) words.push_back(::strdup(argument.c_str()));
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    ::_exit(127);
  }

  // Moves whatever can be moved. False when both outputs have ended, or at the deadline.
  bool step() {
    if (to_write_.empty() && input_ends_) close_input();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0 || (out_ < 0 && err_ < 0)) return false;
    pollfd polled[3] = {
        {out_, POLLIN, 0}, {err_, POLLIN, 0}, {to_write_.empty() ? -1 : in_, POLLOUT, 0}};
    ::poll(polled, 3, static_cast<int>(left));
    if (polled[0].revents != 0) read_some(out_, out_text_);
    if (polled[1].revents != 0) read_some(err_, err_text_);
    if (polled[2].revents != 0) write_some();
    return true;
  }

  static void read_some(int& descriptor, std::string& text) {
    char piece[4096];
    ssize_t count = ::read(descriptor, piece, sizeof piece);
    if (count > 0) {
      text.append(piece, static_cast<size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      ::close(descriptor);
      descriptor = -1;
    }
  }

  void write_some() {
    ssize_t count = ::write(in_, to_write_.data(), to_write_.size());
    if (count > 0)
      to_write_.erase(0, static_cast<size_t>(count));
    else if (errno != EAGAIN && errno != EINTR)
      to_write_.clear();  // nobody reads it
  }

  void close_input() {
    if (in_ >= 0) ::close(in_);
    in_ = -1;
  }

  pid_t id_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  bool input_ends_ = false;
  bool ended_ = false;
  std::string to_write_, out_text_, err_text_;
  const Clock::time_point deadline_;
};

inline ProcessResult run_process(const std::vector<std::string>& arguments,
                                 const ProcessOptions& options = {}) {
  return Process(arguments, options).finish();
}

}  // namespace kvasir::testing
