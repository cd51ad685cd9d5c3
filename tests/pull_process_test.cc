// kvasir pull, ls, show and rm as real processes, against a hub in the test: what is killed in the
// middle goes on, and fetches nothing twice.
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "cli_fixture.h"
#include "pull/journal.h"
#include "pull/test_web_server.h"

namespace kvasir::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// A hub that keeps its files in a store on another port, as the public one does.
class Hub : public Cli {
 protected:
  Hub() {
    store_ = std::make_unique<pull::TestWebServer>([this](const pull::TestRequest& request) {
      return pull::file_reply(files_[request.target.substr(request.target.rfind('/') + 1)],
                              request);
    });
    hub_ = std::make_unique<pull::TestWebServer>([this](const pull::TestRequest& request) {
      pull::TestReply reply;
      if (request.target == "/api/models/org/tales/tree/main?recursive=true") {
        json listing = json::array();
        for (const auto& [name, bytes] : files_)
          listing.push_back({{"type", "file"},
                             {"path", name},
                             {"size", bytes.size()},
                             {"lfs", {{"oid", oids_[name]}, {"size", bytes.size()}}}});
        reply.body = listing.dump();
      } else if (request.target.starts_with("/org/tales/resolve/main/")) {
        const std::string name = request.target.substr(request.target.rfind('/') + 1);
        reply.status = 302;
        reply.headers = {"Location: " + store_->url("/blobs/" + name),
                         "X-Linked-Etag: \"" + oids_[name] + "\""};
      } else {
        reply.status = 404;
      }
      return reply;
    });
    add("kvasir-tales-Q4_K_M.gguf", file_text(kBundled));
  }

  void add(const std::string& name, const std::string& bytes) {
    files_[name] = bytes;
    oids_[name] = sha256_hex(bytes_of(bytes));
  }
  ProcessOptions options() const {
    ProcessOptions options;
    options.environment = {{"KVASIR_HUB", hub_->url()},
                           {"XDG_CACHE_HOME", path("cache")},
                           {"no_proxy", "*"},
                           {"KVASIR_HUB_TOKEN", "secret-token"}};
    return options;
  }
  ProcessResult run(std::vector<std::string> words) const {
    return run_process(command(std::move(words)), options());
  }
  std::string journal() const {
    for (const auto& entry : fs::recursive_directory_iterator(path("cache")))
      if (entry.path().extension() == ".journal") return entry.path().string();
    return "";
  }
  // Until so many ranges have arrived.
  void wait_for_ranges(size_t ranges) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      if (fs::exists(path("cache"))) {
        const auto read = pull::read_journal(journal());
        if (read && read->ranges.size() >= ranges) return;
      }
      ::poll(nullptr, 0, 2);
    }
    ADD_FAILURE() << "the ranges did not arrive";
  }

  std::map<std::string, std::string> files_, oids_;
  std::unique_ptr<pull::TestWebServer> store_, hub_;
};

const std::vector<std::string> kPull = {"pull", "hf:org/tales", "--allow-private"};

TEST_F(Hub, AModelIsFetchedListedUsedAndRemoved) {
  const ProcessResult pulled = run(kPull);
  ASSERT_EQ(pulled.exit_code, 0) << pulled.err;
  EXPECT_THAT(pulled.err, HasSubstr("100 %"));
  const std::string file = pulled.out.substr(0, pulled.out.find('\n'));
  EXPECT_EQ(file_text(file), file_text(kBundled));
  for (const pull::TestRequest& request : hub_->requests())
    EXPECT_EQ(request.header("Authorization"), "Bearer secret-token");
  for (const pull::TestRequest& request : store_->requests())
    EXPECT_THAT(request.head, Not(HasSubstr("secret-token")));

  const json listed = json::parse(run({"ls", "--json"}).out);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["reference"], "hf:org/tales:Q4_K_M");
  EXPECT_EQ(listed[0]["complete"], true);
  EXPECT_EQ(listed[0]["path"], file);
  EXPECT_THAT(run({"ls"}).out, HasSubstr("complete"));

  store_->forget_requests();
  EXPECT_EQ(run(kPull).exit_code, 0);  // nothing is left to fetch
  EXPECT_TRUE(store_->requests().empty());
  hub_->forget_requests();
  EXPECT_EQ(run({"pull", "hf:org/tales", "--offline"}).out, pulled.out);
  EXPECT_TRUE(hub_->requests().empty());

  const ProcessResult told =
      run({"generate", "-m", "org/tales:Q4_K_M", "-p", "Once", "-n", "2", "--ctx", "16"});
  EXPECT_EQ(told.exit_code, 0) << told.err;

  EXPECT_THAT(run({"rm", "hf:org/tales", "--dry-run"}).out, HasSubstr("would free"));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_THAT(run({"rm", "hf:org/tales"}).out, HasSubstr("freed"));
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(json::parse(run({"ls", "--json"}).out).size(), 0U);
}

TEST_F(Hub, AKilledDownloadGoesOnAndFetchesNothingTwice) {
  add("kvasir-tales-Q4_K_M.gguf", pull::test_bytes(24 * pull::kRangeBytes + 5));
  const uint64_t all = files_.begin()->second.size();
  std::vector<std::string> words = kPull;
  words.insert(words.end(), {"--connections", "1", "--rate", "2MB/s"});
  uint64_t arrived = 0;
  {
    Process process(command(words), options());
    wait_for_ranges(3);
    process.signal(SIGKILL);
    EXPECT_EQ(process.finish().exit_code, -1);
    const auto read = pull::read_journal(journal());
    ASSERT_TRUE(read.has_value());
    arrived = read->bytes();
    EXPECT_GE(arrived, 3 * pull::kRangeBytes);
    EXPECT_LT(arrived, all);
  }
  const json listed = json::parse(run({"ls", "--json"}).out);
  EXPECT_EQ(listed[0]["bytes_here"], arrived);
  EXPECT_EQ(listed[0]["complete"], false);
  EXPECT_NE(run({"generate", "-m", "hf:org/tales", "-p", "x"}).exit_code, 0);

  store_->forget_requests();
  const ProcessResult resumed = run(kPull);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(store_->bytes_asked(), all - arrived);
  EXPECT_EQ(file_text(resumed.out.substr(0, resumed.out.find('\n'))), files_.begin()->second);
}

TEST_F(Hub, CtrlCLeavesWhatHasArrived) {
  add("kvasir-tales-Q4_K_M.gguf", pull::test_bytes(24 * pull::kRangeBytes + 5));
  std::vector<std::string> words = kPull;
  words.insert(words.end(), {"--rate", "2MB/s"});
  Process process(command(words), options());
  wait_for_ranges(2);
  process.signal(SIGINT);
  const ProcessResult stopped = process.finish();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("goes on"));
  const uint64_t arrived = pull::read_journal(journal())->bytes();
  store_->forget_requests();
  ASSERT_EQ(run(kPull).exit_code, 0);
  EXPECT_EQ(store_->bytes_asked(), files_.begin()->second.size() - arrived);
}

TEST_F(Hub, ShowReadsTheHeaderOnly) {
  const ProcessResult shown = run({"show", "hf:org/tales", "--allow-private", "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const json facts = json::parse(shown.out);
  EXPECT_GT(facts["experts"]["total"], 0);
  EXPECT_GT(facts["worker"]["unit_bytes"], 0);
  EXPECT_EQ(facts["bytes"], files_.begin()->second.size());
  EXPECT_EQ(facts["bytes_here"], 0);
  EXPECT_LT(store_->bytes_asked(), files_.begin()->second.size() / 2);
  const json local = json::parse(run({"show", kBundled, "--json"}).out);
  EXPECT_EQ(local["experts"], facts["experts"]);
  EXPECT_EQ(run({"show", "hf:org/tales", "--offline"}).exit_code, 1);
}

TEST_F(Hub, UnclearAndForbiddenReferencesAreErrors) {
  add("b-Q8_0.gguf", "GGUF");
  add("a-Q8_0.gguf", "GGUF");
  const ProcessResult several = run({"pull", "hf:org/tales:Q8_0", "--allow-private"});
  EXPECT_EQ(several.exit_code, 2);
  EXPECT_THAT(several.err, HasSubstr(":a-Q8_0.gguf, :b-Q8_0.gguf"));
  const size_t requests = hub_->requests().size();
  const ProcessResult forbidden = run({"pull", "hf:org/tales"});
  EXPECT_EQ(forbidden.exit_code, 2);
  EXPECT_THAT(forbidden.err, HasSubstr("--allow-private"));
  EXPECT_EQ(hub_->requests().size(), requests);
  EXPECT_EQ(run({"pull", "file:/etc/passwd"}).exit_code, 2);
  EXPECT_EQ(run({"pull", "hf:org/tales", "--offline"}).exit_code, 1);
}

TEST_F(Hub, AChangedModelIsFetchedAnewOnlyWhenAsked) {
  add("kvasir-tales-Q4_K_M.gguf", "first state");
  ASSERT_EQ(run(kPull).exit_code, 0);
  add("kvasir-tales-Q4_K_M.gguf", "other state");
  const ProcessResult changed = run(kPull);
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_THAT(changed.err, HasSubstr("--restart"));
  std::vector<std::string> words = kPull;
  words.emplace_back("--restart");
  const ProcessResult again = run(words);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(file_text(again.out.substr(0, again.out.find('\n'))), "other state");
}

}  // namespace
}  // namespace kvasir::testing
