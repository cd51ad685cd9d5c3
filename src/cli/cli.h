// The command line: one subcommand per role. docs/commands.md is its page.
#pragma once

namespace kvasir::cli {

// Exit codes of every command. What Ctrl-C stopped ends with kInterrupted, as shells expect.
enum ExitCode : int { kSuccess = 0, kFailed = 1, kUsage = 2, kUnreachable = 3, kInterrupted = 130 };

// Everything main() does. Nothing is thrown out of it.
int run(int argc, char** argv);

}  // namespace kvasir::cli
