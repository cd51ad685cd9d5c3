#include "pull/model_reference.h"

#include <gmock/gmock.h>

#include "pull/file_names.h"

namespace kvasir::pull {
namespace {

using ::testing::HasSubstr;
using Kind = ModelReference::Kind;

ModelReference parsed(std::string_view text) {
  auto reference = parse_model_reference(text);
  EXPECT_TRUE(reference.has_value()) << text << ": " << reference.error().message;
  return reference.value_or(ModelReference{});
}

TEST(ModelReference, ReadsEverySpellingOfAHubModel) {
  const HubReference expected{"org", "repo-GGUF", "Q8_0", "main"};
  for (const char* text : {"hf:org/repo-GGUF:Q8_0", "org/repo-GGUF:Q8_0",
                           "hf.co/org/repo-GGUF:Q8_0", "huggingface.co/org/repo-GGUF:Q8_0",
                           "https://hf.co/org/repo-GGUF:Q8_0", "hf:org/repo-GGUF:Q8_0@main"}) {
    EXPECT_EQ(parsed(text).kind, Kind::kHub) << text;
    EXPECT_EQ(parsed(text).hub, expected) << text;
  }
  EXPECT_EQ(parsed("hf:org/repo").hub, (HubReference{"org", "repo", "", "main"}));
  EXPECT_EQ(parsed("hf:org/repo@refs/pr/1").hub, (HubReference{"org", "repo", "", "refs/pr/1"}));
  EXPECT_EQ(parsed("hf:o/r:sub/x.gguf@v1").hub, (HubReference{"o", "r", "sub/x.gguf", "v1"}));
}

TEST(ModelReference, ReadsTheAddressOfAPageCopiedFromABrowser) {
  const HubReference expected{"o", "r", "sub/x.gguf", "v1"};
  EXPECT_EQ(parsed("https://huggingface.co/o/r/blob/v1/sub/x.gguf").hub, expected);
  EXPECT_EQ(parsed("https://huggingface.co/o/r/resolve/v1/sub/x.gguf?download=true").hub, expected);
}

TEST(ModelReference, TakesEverythingElseForAPath) {
  for (const char* path : {"model.gguf", "./org/repo:Q4_K_M", "/a/b:c", "org/repo", "a b.gguf",
                           "../x/y:Q4", "~/models/x.gguf", "C:\\x.gguf"}) {
    EXPECT_EQ(parsed(path).kind, Kind::kPath) << path;
    EXPECT_EQ(parsed(path).path, path);
  }
  EXPECT_EQ(parsed("file:/a/x-00001-of-00003.gguf").path, "/a/x-00001-of-00003.gguf");
  EXPECT_EQ(parsed("file:///a/x.gguf").path, "/a/x.gguf");
}

TEST(ModelReference, ReadsAddressesOfFiles) {
  EXPECT_EQ(parsed("https://host.example/a/x.gguf").kind, Kind::kUrl);
  EXPECT_EQ(parsed("https://HOST.example:443/a/x.gguf#top").url,
            "https://host.example:443/a/x.gguf");
}

TEST(ModelReference, RefusesWhatCouldBecomeAnotherPathOrAddress) {
  const std::string nul("hf:o/r:Q\0", 9);
  for (std::string_view text : {"",
                                "hf:",
                                "hf:org",
                                "hf:org/",
                                "hf:/repo",
                                "hf:../repo",
                                "hf:org/..",
                                "hf:org/.hidden",
                                "hf:org/re/po",
                                "hf:org/repo:../x.gguf",
                                "hf:org/repo:a/../x.gguf",
                                "hf:org/repo:/etc/x.gguf",
                                "hf:org/repo:%2e%2e/x.gguf",
                                "hf:org/repo:x\n.gguf",
                                "hf:org/repo@../main",
                                "hf:org/repo@",
                                "hf:org/repo:",
                                "hf:org/re po",
                                "ftp://h/x.gguf",
                                "https://h/",
                                "https://h/x.bin",
                                "https://user:pw@h/x.gguf",
                                "https:///x.gguf",
                                "https://h/..%2fx.gguf",
                                "https://h/.gguf",
                                "file://host/x.gguf",
                                "file:",
                                "swarm:wss://h/m",
                                "wss://h/x.gguf"}) {
    EXPECT_FALSE(parse_model_reference(text).has_value()) << text;
  }
  EXPECT_FALSE(parse_model_reference(nul).has_value());
  EXPECT_FALSE(parse_model_reference("hf:o/r:" + std::string(10'000, 'a')).has_value());
  EXPECT_THAT(parse_model_reference("swarm:wss://h/m").error().message, HasSubstr("worker"));
}

TEST(ModelReference, IsReadBackAsTheSame) {
  for (const char* text : {"hf:o/r:Q4_K_M", "hf:o/r", "hf:o/r:sub/x.gguf@v1",
                           "https://h.example/x.gguf", "file:/a/b.gguf"}) {
    EXPECT_EQ(reference_text(parsed(text)), text);
  }
}

TEST(FileNames, AreNamesOfFilesHereAndNothingElse) {
  for (const char* name : {"a", "model-Q4_K_M.gguf", "a b.gguf", "x..y", "(1).gguf"})
    EXPECT_TRUE(is_file_name(name)) << name;
  const std::string nul("a\0b", 3);
  for (std::string_view name : {"", ".", "..", ".hidden", "-rf", " x", "a/b", "a\\b", "a:b",
                                "a%2eb", "a\nb", "a\x7f", "\xc3\xa4", "a*", "a?"})
    EXPECT_FALSE(is_file_name(name)) << name;
  EXPECT_FALSE(is_file_name(nul));
  EXPECT_FALSE(is_file_name(std::string(201, 'a')));
  EXPECT_TRUE(is_file_path("a/b/c.gguf"));
  for (const char* path : {"/a", "a/", "a//b", "a/../b", "./a", "a/b/c/d/e/f/g/h/i"})
    EXPECT_FALSE(is_file_path(path)) << path;
}

// 63 and 65 digits, upper case, and everything that is a path.
TEST(FileNames, ChecksumsHave64LowerCaseHexDigits) {
  const std::string good(64, 'a');
  EXPECT_TRUE(is_sha256(good));
  EXPECT_FALSE(is_sha256(good.substr(1)));
  EXPECT_FALSE(is_sha256(good + "a"));
  EXPECT_FALSE(is_sha256(std::string(64, 'A')));
  EXPECT_FALSE(is_sha256("../" + good.substr(3)));
  EXPECT_FALSE(is_sha256("%2e" + good.substr(3)));
  EXPECT_FALSE(is_sha256(std::string(63, 'a') + '\0'));
  EXPECT_FALSE(is_sha256("sha256:" + good));
}

TEST(FileNames, KnowsPartsOfSplitFiles) {
  const auto name = parse_split_name("dir/m-00002-of-00003.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "dir/m");
  EXPECT_EQ(name->part, 2U);
  EXPECT_EQ(name->of(3), "dir/m-00003-of-00003.gguf");
  for (const char* other : {"m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-0001-of-0003.gguf",
                            "m-00001-of-99999.gguf", "-00001-of-00001.gguf", "m.gguf"})
    EXPECT_FALSE(parse_split_name(other).has_value()) << other;
}

TEST(FileNames, ReadsTheQuantisationOutOfAName) {
  const std::pair<const char*, const char*> cases[] = {
      {"Model-7B-Q4_K_M.gguf", "Q4_K_M"},
      {"dir/model.Q8_0.gguf", "Q8_0"},
      {"m-UD-Q2_K_XL-00001-of-00002.gguf", "UD-Q2_K_XL"},
      {"m-iq4_xs.gguf", "IQ4_XS"},
      {"m-bf16.gguf", "BF16"},
      {"m-MXFP4_MOE.gguf", "MXFP4_MOE"},
      {"Qwen3-30B-A3B.gguf", ""},
      {"model.gguf", ""},
      {"m-Q.gguf", ""}};
  for (const auto& [name, quantization] : cases) EXPECT_EQ(quantization_of(name), quantization);
}

}  // namespace
}  // namespace kvasir::pull
