#include "config/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/completion.h"
#include "config/test_program.h"

namespace kvasir::config::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ManPage, HasTheTextsOfTheTables) {
  const Program made = program();
  const std::string page = man_page(made, made.verbs.front());
  EXPECT_THAT(page,
              AllOf(HasSubstr(".SH NAME\nkvasir\\-serve \\- Serve it\\(aqs [model]: all\n"),
                    HasSubstr("\\fB\\-\\-kv\\-type\\fR \\fIf16|f32\\fR\nKind (default: f16)"),
                    HasSubstr("\\fIMODEL\\fR, \\fB\\-m\\fR, \\fB\\-\\-model\\fR"),
                    HasSubstr(".SH EXIT STATUS\n0 fine, 4 refused.\n"),
                    HasSubstr(".B KVASIR_SERVE_KV_TYPE\n"),
                    HasSubstr(".SH EXAMPLES\n.nf\nkvasir serve \\-m \\(aqa\\en\\(aq\n.fi\n")));
  EXPECT_THAT(man_page(made, made.verbs.back()), HasSubstr(".SH EXIT STATUS\n0 done.\n"));
  EXPECT_THAT(man_page(made), AllOf(HasSubstr(".TH \"KVASIR\" 1"), HasSubstr("kvasir\\-man")));
  EXPECT_EQ(man_file_name(made, nullptr), "kvasir.1");
  EXPECT_EQ(man_file_name(made, &made.verbs.front()), "kvasir-serve.1");
}

// A description is never an instruction of the formatter.
TEST(ManPage, EscapesWhatRoffWouldObey) {
  Program made = program();
  made.verbs.front().flags = {flag("x", "", ".so /etc/passwd"), flag("y", "", "'br \\fB\n.ti")};
  const std::string page = man_page(made, made.verbs.front());
  EXPECT_THAT(page, HasSubstr("\n\\&.so /etc/passwd\n"));
  EXPECT_THAT(page, HasSubstr("\n\\(aqbr \\efB .ti\n"));
}

TEST(Completion, QuotesDescriptionsForEachShell) {
  const Program made = program();
  EXPECT_THAT(zsh_completion(made), HasSubstr("'serve:Serve it'\\''s \\[model\\]\\: all'"));
  EXPECT_THAT(fish_completion(made), HasSubstr("-a serve -d 'Serve it\\'s [model]: all'"));
  EXPECT_THAT(bash_completion(made), HasSubstr("--kv-type) _kvasir_words 'f16 f32'; return ;;"));
}

}  // namespace
}  // namespace kvasir::config::testing
