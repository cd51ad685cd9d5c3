// End to end: conversations, and Ctrl-C.
#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(Cli, ChatsWithPipedInput) {
  const std::string one = "Tell me a tale about a fox.\n";
  const auto chat = [](const std::string& input) {
    return output_of({"chat", "-n", "12", "--temperature", "0"}, with_stdin(input));
  };
  const std::string first = chat(one);
  EXPECT_GT(first.size(), 10U);
  // The second turn continues the first; a reset begins anew; commands and empty lines are no
  // turns.
  const std::string both = chat(one + "\n/help\nAnd then?\n");
  EXPECT_THAT(both, StartsWith(first));
  EXPECT_GT(both.size(), first.size());
  EXPECT_EQ(chat(one + "/reset\n" + one), first + first);
  EXPECT_EQ(chat(one + "/exit\n" + one), first);
  EXPECT_EQ(chat(""), "");
  EXPECT_EQ(chat("Tell me a tale about a fox."), first);
}

// A turn sees what was said before it: the same two turns in one process and rendered by hand.
TEST_F(Cli, KeepsTheConversationBetweenTurns) {
  const std::string turns =
      output_of({"chat", "-n", "6", "--temperature", "0", "--system", "Be kind."},
                with_stdin("Hello.\nAnd then?\n"));
  const size_t line = turns.find('\n');
  const std::string rendered =
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello.<|im_end|>\n"
      "<|im_start|>assistant\n" +
      turns.substr(0, line) +
      "<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(turns.substr(line + 1),
            output_of({"generate", "-n", "6", "--temperature", "0", "-p", rendered}));
}

TEST_F(Cli, FailsWhenAPipedConversationOutgrowsTheContext) {
  ProcessResult result = kvasir_run({"chat", "--ctx", "40", "-n", "5"},
                                    with_stdin("Hello.\nHello.\nHello.\nHello.\n"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("the context has 40"), HasSubstr("hint:  start anew"),
                                HasSubstr("--ctx 256 or more")));
}

TEST_F(Cli, StopsAnAnswerButNotTheChatOnInterrupt) {
  Process process(command({"chat", "-n", "100000", "--ctx", "100000", "--logit-bias", "4095:-100"}),
                  with_model());
  process.write("Tell me a tale.\n");
  ASSERT_TRUE(process.wait_for([&] { return process.out().size() > 20; })) << process.err();
  process.signal(SIGINT);
  ASSERT_TRUE(process.wait_for([&] { return process.out().ends_with("\n"); }));
  const size_t first = process.out().size();
  process.write("Another one.\n");
  ASSERT_TRUE(process.wait_for([&] { return process.out().size() > first + 20; }));
  process.signal(SIGINT);
  ProcessResult result = process.finish();
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Cli, EndsGenerateOnInterruptWithItsStatistics) {
  Process process(command({"generate", "-p", "Once", "-n", "90000", "--ctx", "100000", "--stats",
                           "--logit-bias", "4095:-100", "--logit-bias", "4093:-100"}),
                  with_model());
  ASSERT_TRUE(process.wait_for([&] { return process.out().size() > 20; })) << process.err();
  process.signal(SIGINT);
  ProcessResult result = process.finish();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_TRUE(result.out.ends_with("\n"));
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
}

TEST_F(Cli, RefusesToChatWithAModelWithoutChatTokens) {
  const std::string bundled = file_text(kBundled);
  std::string other = bundled;
  for (size_t at = 0; (at = other.find("<|im_start|>", at)) != std::string::npos; ++at)
    other[at] = '[';
  write_file(path("plain.gguf"), other);
  ProcessResult result = kvasir_run({"chat", "-m", path("plain.gguf")}, with_stdin("Hello.\n"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("<|im_start|>"), HasSubstr("kvasir generate")));
}

}  // namespace
}  // namespace kvasir::testing
