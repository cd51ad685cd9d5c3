// This program, once more, as a child that never outlives its parent.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chaos/poll_set.h"

namespace kvasir::chaos {

// What a child writes to one of its descriptors. One thread.
class PipeText {
 public:
  PipeText() = default;
  ~PipeText();
  PipeText(const PipeText&) = delete;
  PipeText& operator=(const PipeText&) = delete;

  void own(int descriptor) { descriptor_ = descriptor; }
  void add_to(PollSet& polled);
  // Everything that is there now.
  void read_all();
  const std::string& text() const { return text_; }
  // The whole lines since the last call, without their ends; text() keeps them.
  std::vector<std::string> take_lines();
  // Forgets what take_lines() has given, for what is long and not needed again.
  void drop_taken();

 private:
  int descriptor_ = -1;
  std::string text_;
  size_t taken_ = 0;
};

struct ChildSetup {
  std::vector<std::string> arguments;              // after the program's name
  std::map<std::string, std::string> environment;  // replaces variables of these names
  std::vector<std::string> without_variables;
  bool has_trace = false;  // can write to kTracePath what is read from trace()
};
inline constexpr const char* kTracePath = "/dev/fd/3";

// How a process ended.
struct ChildEnd {
  std::optional<int> exit_code;  // nothing: by a signal
  int signal = 0;
};
std::string end_text(const ChildEnd& end);  // "exit code 1", "signal 11"

// One thread, the one that lives longest: the kernel kills the child when that ends.
class ChildProcess {
 public:
  // In a process group of its own: Ctrl-C is the parent's to handle.
  static Result<std::unique_ptr<ChildProcess>> start(const ChildSetup& setup);
  ~ChildProcess();  // kills and reaps
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void add_to(PollSet& polled);
  // Nothing while it runs. After the end all it wrote is there.
  const std::optional<ChildEnd>& look();
  void signal(int number);  // does nothing after the end

  PipeText& out() { return out_; }
  PipeText& err() { return err_; }
  PipeText& trace() { return trace_; }

 private:
  explicit ChildProcess(pid_t id) : id_(id) {}

  const pid_t id_;
  std::optional<ChildEnd> end_;
  PipeText out_, err_, trace_;
};

}  // namespace kvasir::chaos
