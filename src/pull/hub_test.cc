#include "pull/hub.h"

#include <gmock/gmock.h>

#include "pull/test_web_server.h"

namespace kvasir::pull {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kOid(64, 'e');

std::string entry(const std::string& path, uint64_t bytes, const std::string& oid = kOid) {
  return fmt::format(
      R"({{"type":"file","oid":"1234","size":{},"path":"{}","lfs":{{"oid":"{}","size":{},"pointerSize":135}}}})",
      bytes, path, oid, bytes);
}

std::vector<std::string> paths(const std::vector<HubFile>& files) {
  std::vector<std::string> result;
  for (const HubFile& file : files) result.push_back(file.path);
  return result;
}

TEST(HubListing, KeepsFilesOfModels) {
  const auto files = parse_hub_listing("[" + entry("a-Q4_K_M.gguf", 10) +
                                       R"(,{"type":"directory","path":"x.gguf","size":0},
      {"type":"file","path":"README.md","size":5},{"type":"file","path":"small.gguf","size":7}])");
  ASSERT_TRUE(files.has_value()) << files.error().message;
  EXPECT_THAT(paths(*files), ElementsAre("a-Q4_K_M.gguf", "small.gguf"));
  EXPECT_EQ(files->front().sha256, kOid);
  EXPECT_EQ(files->back().sha256, "");
}

// Names of a hostile hub are never joined to a folder: they do not even get into the list.
TEST(HubListing, LeavesOutNamesThatAreNoNames) {
  for (const char* path :
       {"../x.gguf", "/etc/x.gguf", "a/../x.gguf", "a\\\\x.gguf", "a\\u0000.gguf", "%2e%2e/x.gguf",
        ".hidden.gguf", "a//x.gguf", "C:x.gguf", "\\u002e./x.gguf"}) {
    const auto files = parse_hub_listing("[" + entry(path, 10) + "]");
    ASSERT_TRUE(files.has_value()) << path;
    EXPECT_TRUE(files->empty()) << path;
  }
}

TEST(HubListing, RefusesWhatIsNoListing) {
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1]"), std::string("[{}]"),
        std::string("[{\"type\":\"file\"}]"), std::string("<html>"),
        "[" + entry("a.gguf", 10, std::string(63, 'e')) + "]",
        "[" + entry("a.gguf", 10, std::string(65, 'e')) + "]",
        "[" + entry("a.gguf", 10, std::string(64, 'E')) + "]",
        "[" + entry("a.gguf", 10, "../" + std::string(61, 'e')) + "]",
        "[" + entry("a.gguf", 0) + "]", "[" + entry("a.gguf", uint64_t{1} << 60) + "]",
        std::string(R"([{"path":"a.gguf","size":-1}])"),
        std::string(R"([{"path":"a.gguf","size":1e3}])"),
        std::string(R"([{"path":"a.gguf","size":"9"}])"), std::string(1'000'000, '['),
        "[" + entry("a.gguf", 10)}) {
    EXPECT_FALSE(parse_hub_listing(text).has_value()) << text.substr(0, 100);
  }
}

TEST(HubListing, FindsTheNextPage) {
  EXPECT_EQ(next_page(R"(<https://h/a?cursor=1>; rel="next")"), "https://h/a?cursor=1");
  EXPECT_EQ(next_page(R"(<https://h/b>; rel="prev", <https://h/c>; rel="next")"), "https://h/c");
  EXPECT_EQ(next_page(R"(<https://h/b>; rel="prev")"), "");
  EXPECT_EQ(next_page("<https://h/b"), "");
  EXPECT_EQ(next_page(""), "");
}

std::vector<HubModel> models_of(const std::vector<std::string>& names) {
  std::vector<HubFile> files;
  for (const std::string& name : names) files.push_back({name, 10, kOid});
  return group_models(files);
}

TEST(HubModels, AreGroupedByTheirParts) {
  const auto models =
      models_of({"m-Q8_0-00002-of-00002.gguf", "mmproj-F16.gguf", "m-Q4_K_M.gguf",
                 "m-Q8_0-00001-of-00002.gguf", "m.imatrix.gguf", "b/m-BF16-00001-of-00003.gguf"});
  ASSERT_EQ(models.size(), 3U);
  EXPECT_EQ(models[0].name, "b/m-BF16");
  EXPECT_FALSE(models[0].complete());
  EXPECT_EQ(models[1].quantization, "Q4_K_M");
  EXPECT_THAT(paths(models[2].files),
              ElementsAre("m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"));
  EXPECT_TRUE(models[2].complete());
  EXPECT_EQ(models[2].bytes, 20U);
}

std::string chosen(const std::vector<std::string>& names, const std::string& selector) {
  const auto model = choose_model(models_of(names), {"o", "r", selector, "main"});
  return model ? model->files.front().path : model.error().message + " / " + model.error().hint;
}

TEST(HubModels, AreChosenByQuantisationOrFile) {
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-Q4_K_M.gguf"}, ""), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf", "m-Q4_K_M.gguf"}, "q8_0"), "m-Q8_0.gguf");
  EXPECT_EQ(chosen({"m-Q8_0.gguf"}, ""), "m-Q8_0.gguf");
  EXPECT_EQ(chosen({"a-Q8_0.gguf", "b-Q8_0.gguf"}, "b-Q8_0.gguf"), "b-Q8_0.gguf");
  EXPECT_EQ(chosen({"a-Q8_0-00001-of-00002.gguf", "a-Q8_0-00002-of-00002.gguf"},
                   "a-Q8_0-00002-of-00002.gguf"),
            "a-Q8_0-00001-of-00002.gguf");
}

TEST(HubModels, AnUnclearReferenceListsWhatThereIs) {
  EXPECT_THAT(chosen({"m-Q8_0.gguf", "m-Q6_K.gguf"}, ""), HasSubstr("there are :Q6_K, :Q8_0"));
  EXPECT_THAT(chosen({"m-Q8_0.gguf"}, "Q2_K"), HasSubstr("there are :Q8_0"));
  EXPECT_THAT(chosen({"a-Q8_0.gguf", "b-Q8_0.gguf"}, "Q8_0"),
              HasSubstr("say which one: :a-Q8_0.gguf, :b-Q8_0.gguf"));
  EXPECT_THAT(chosen({}, ""), HasSubstr("no models"));
  EXPECT_THAT(chosen({"m-Q8_0-00001-of-00002.gguf"}, "Q8_0"), HasSubstr("1 of 2 parts"));
}

class Hub : public ::testing::Test {
 protected:
  Result<RemoteModel> find(TestWebServer& server, const HubReference& reference) {
    CurlOptions options;
    options.allow_private = true;
    const auto transfer = make_curl_transfer(options);
    WebRules rules;
    rules.allow_private = true;
    rules.token = "secret";
    rules.token_origin = *parse_web_address(server.url());
    const WebClient web(*transfer, rules);
    return find_hub_model(web, *parse_web_address(server.url()), reference);
  }
};

TEST_F(Hub, ListsAllPagesAndNamesAddressesAndFolder) {
  TestWebServer server([&](const TestRequest& request) {
    TestReply reply;
    if (request.target.find("cursor") == std::string::npos) {
      reply.body = "[" + entry("x-Q8_0.gguf", 10) + "]";
      reply.headers = {"Link: </api/models/o/r/tree/v1?cursor=2>; rel=\"next\""};
    } else {
      reply.body = "[" + entry("sub/y-Q4_K_M.gguf", 20) + "]";
    }
    return reply;
  });
  const auto model = find(server, {"o", "r", "", "refs/pr/1"});
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(server.requests()[0].target, "/api/models/o/r/tree/refs%2Fpr%2F1?recursive=true");
  EXPECT_EQ(server.requests()[0].header("Authorization"), "Bearer secret");
  EXPECT_EQ(model->reference, "hf:o/r:Q4_K_M@refs/pr/1");
  EXPECT_EQ(model->folder,
            fmt::format("hub/127.0.0.1~{}/o/r/refs~pr~1/sub~y-Q4_K_M", server.port()));
  ASSERT_EQ(model->files.size(), 1U);
  EXPECT_EQ(model->files[0].name, "y-Q4_K_M.gguf");
  EXPECT_EQ(model->files[0].address.path, "/o/r/resolve/refs%2Fpr%2F1/sub/y-Q4_K_M.gguf");
}

TEST_F(Hub, LeavesNoPageToAnotherHostNorPagesWithoutEnd) {
  TestWebServer elsewhere([](const TestRequest&) { return TestReply{}; });
  TestWebServer server([&](const TestRequest& request) {
    TestReply reply;
    reply.body = "[]";
    reply.headers = {request.target.find("endless") != std::string::npos
                         ? "Link: <?endless>; rel=\"next\""
                         : "Link: <" + elsewhere.url("/x") + ">; rel=\"next\""};
    return reply;
  });
  EXPECT_EQ(find(server, {"o", "r", "", "main"}).error().kind, ErrorKind::kCorrupt);
  EXPECT_TRUE(elsewhere.requests().empty());
  EXPECT_EQ(find(server, {"o", "endless", "", "main"}).error().kind, ErrorKind::kLimit);
  EXPECT_LE(server.requests().size(), 1 + kListingPagesMax);
}

TEST_F(Hub, SaysWhatAStatusMeans) {
  int status = 401;
  TestWebServer server([&](const TestRequest&) {
    TestReply reply;
    reply.status = status;
    return reply;
  });
  EXPECT_THAT(find(server, {"o", "r", "", "main"}).error().hint, HasSubstr("--token-file"));
  status = 404;
  EXPECT_EQ(find(server, {"o", "r", "", "main"}).error().kind, ErrorKind::kNotFound);
  status = 503;
  EXPECT_EQ(find(server, {"o", "r", "", "main"}).error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace kvasir::pull
