// A download against a server that breaks its promises, one way per test.
#include "pull/range_download.h"

#include <gmock/gmock.h>

#include <fstream>
#include <future>
#include <sstream>

#include "base/sha256.h"
#include "base/test_folder.h"
#include "pull/test_web_server.h"

namespace kvasir::pull {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 5 * kRangeBytes + 1234;

class Download : public ::testing::Test {
 protected:
  Download() {
    CurlOptions curl;
    curl.allow_private = true;
    curl.slow_within_s = 2;
    transfer_ = make_curl_transfer(curl);
    WebRules rules;
    rules.allow_private = true;
    web_ = std::make_unique<WebClient>(*transfer_, rules);
    options_.backoff_ms = 1;
    options_.span_ranges = 2;
    watch_.progress = [this](DownloadStage, uint64_t done) {
      EXPECT_LE(done, file_.bytes);
      most_ = std::max(most_, done);
    };
  }

  // `handler` answers requests for anything but the first byte, which is answered honestly.
  void serve(TestWebServer::Handler handler) {
    server_ = std::make_unique<TestWebServer>([this, handler](const TestRequest& request) {
      if (request.range && request.range->bytes() == 1) return file_reply(bytes_, request, etag_);
      return handler(request);
    });
    file_ = {"x.gguf", *parse_web_address(server_->url("/x.gguf")), bytes_.size(),
             sha256_hex(bytes_of(bytes_))};
  }
  void serve_honestly() {
    serve([this](const TestRequest& request) { return file_reply(bytes_, request, etag_); });
  }

  Result<DownloadEnd> download() {
    Pacer pacer(0);
    return download_file(*web_, file_, path(), options_, pacer, watch_);
  }
  void expect_complete() {
    const auto end = download();
    ASSERT_TRUE(end.has_value()) << end.error().message;
    EXPECT_EQ(*end, DownloadEnd::kComplete);
    EXPECT_EQ(content(path()), bytes_);
  }
  Error expect_error() {
    const auto end = download();
    EXPECT_FALSE(end.has_value());
    EXPECT_FALSE(std::ifstream(path()).good()) << "a file that was not proved has its final name";
    return end ? Error{} : end.error();
  }

  std::string path() const { return folder_.path("x.gguf"); }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  // Fetches the first ranges, then the connection breaks for good.
  void fetch_some(uint64_t ranges) {
    options_.failures_max = 0;
    options_.connections = 1;
    serve([this, ranges](const TestRequest& request) {
      TestReply reply = file_reply(bytes_, request, etag_);
      if (request.range->end > ranges * kRangeBytes)
        reply.cut_after = ranges * kRangeBytes > request.range->begin
                              ? ranges * kRangeBytes - request.range->begin
                              : 0;
      return reply;
    });
    static_cast<void>(expect_error());
    options_ = {};
    options_.backoff_ms = 1;
    options_.span_ranges = 2;
  }

  TestFolder folder_;
  std::string bytes_ = test_bytes(kBytes);
  std::string etag_ = "\"one\"";
  std::unique_ptr<Transfer> transfer_;
  std::unique_ptr<WebClient> web_;
  std::unique_ptr<TestWebServer> server_;
  RemoteFile file_;
  DownloadOptions options_;
  DownloadWatch watch_;
  uint64_t most_ = 0;
};

TEST_F(Download, FetchesAFileOverSeveralConnections) {
  serve_honestly();
  expect_complete();
  EXPECT_EQ(server_->bytes_asked(), kBytes);
  EXPECT_EQ(most_, kBytes);
  for (const TestRequest& request : server_->requests())
    EXPECT_EQ(request.header("If-Range"), request.range->bytes() > 1 ? etag_ : "");
}

TEST_F(Download, FilesOfEveryLengthNearARange) {
  for (size_t bytes : {size_t{1}, kRangeBytes - 1, kRangeBytes, kRangeBytes + 1}) {
    bytes_ = test_bytes(bytes);
    serve_honestly();
    file_.name = "y.gguf";
    Pacer pacer(0);
    const std::string where = folder_.path(std::to_string(bytes));
    const auto end = download_file(*web_, file_, where, options_, pacer, watch_);
    ASSERT_TRUE(end.has_value()) << bytes << " " << end.error().message;
    EXPECT_EQ(content(where), bytes_);
  }
}

TEST_F(Download, GoesOnWithWhatHasArrived) {
  fetch_some(3);
  EXPECT_EQ(read_journal(journal_path(path()))->ranges.size(), 3U);
  serve_honestly();
  expect_complete();
  EXPECT_EQ(server_->bytes_asked(), kBytes - 3 * kRangeBytes);
}

TEST_F(Download, FetchesAgainWhatTheDiskHasLost) {
  fetch_some(4);
  std::fstream part(part_path(path()), std::ios::in | std::ios::out | std::ios::binary);
  part.seekp(kRangeBytes + 5);
  part.put('!');
  part.close();
  std::filesystem::resize_file(part_path(path()), 3 * kRangeBytes + 5);
  serve_honestly();
  expect_complete();
  EXPECT_EQ(server_->bytes_asked(), kBytes - 2 * kRangeBytes);
}

TEST_F(Download, ADamagedJournalCostsItsRangesOnly) {
  fetch_some(4);
  std::string journal = content(journal_path(path()));
  journal[journal.find("range 2") + 20] ^= 1;
  std::ofstream(journal_path(path()), std::ios::binary) << journal;
  serve_honestly();
  expect_complete();
  EXPECT_EQ(server_->bytes_asked(), kBytes - 3 * kRangeBytes);
}

TEST_F(Download, AJournalThatIsNoneCostsTheWholeFile) {
  fetch_some(4);
  std::ofstream(journal_path(path()), std::ios::binary) << "rubbish";
  serve_honestly();
  expect_complete();
  EXPECT_EQ(server_->bytes_asked(), kBytes);
}

TEST_F(Download, AServerWithoutRangesIsReadFromTheBeginning) {
  server_ = std::make_unique<TestWebServer>([this](const TestRequest&) {
    TestReply reply;
    reply.headers = {"ETag: " + etag_};
    reply.body = bytes_;
    return reply;
  });
  file_ = {"x.gguf", *parse_web_address(server_->url("/x.gguf")), bytes_.size(), ""};
  expect_complete();
  EXPECT_EQ(server_->requests().size(), 2U);  // one asks what there is
}

// The whole file in answer to a range in its middle: never taken for that range.
TEST_F(Download, TheWholeInsteadOfAPartIsNotThePart) {
  serve([this](const TestRequest&) {
    TestReply reply;
    reply.headers = {"ETag: " + etag_};
    reply.body = bytes_;
    return reply;
  });
  options_.failures_max = 2;
  EXPECT_THAT(expect_error().message, HasSubstr("whole file"));
}

TEST_F(Download, AnotherRangeThanAskedForIsRefused) {
  for (const char* range : {"bytes 0-9/99", "bytes 1-2/3", "", "bytes */5", "nonsense"}) {
    serve([&](const TestRequest& request) {
      TestReply reply = file_reply(bytes_, request, etag_);
      reply.headers.back() = std::string("Content-Range: ") + range;
      return reply;
    });
    EXPECT_EQ(expect_error().kind, ErrorKind::kCorrupt) << range;
  }
}

TEST_F(Download, ALyingLengthIsRefused) {
  serve([&](const TestRequest& request) {
    TestReply reply = file_reply(bytes_, request, etag_);
    reply.body += "more";
    return reply;
  });
  EXPECT_THAT(expect_error().message, HasSubstr("long"));
}

TEST_F(Download, MoreThanWasAskedForIsRefused) {
  serve([&](const TestRequest& request) {
    TestReply reply = file_reply(bytes_, request, etag_);
    reply.body += "more";
    reply.add_length = false;
    return reply;
  });
  EXPECT_THAT(expect_error().message, HasSubstr("more than"));
}

TEST_F(Download, ShortBodiesAreNotComplete) {
  std::atomic<int> answers = 0;
  serve([&](const TestRequest& request) {
    TestReply reply = file_reply(bytes_, request, etag_);
    if (++answers % 2 == 1) {
      reply.cut_after = reply.body.size() / 2;
      // Without a length the end of the connection looks like the end of the answer.
      reply.add_length = answers % 4 == 1;
    }
    return reply;
  });
  expect_complete();
}

TEST_F(Download, GivesUpAServerThatOnlyBreaksOff) {
  std::atomic<int> answers = 0;
  serve([&](const TestRequest& request) {
    ++answers;
    TestReply reply = file_reply(bytes_, request, etag_);
    reply.cut_after = 1000;
    return reply;
  });
  options_.failures_max = 3;
  EXPECT_EQ(expect_error().kind, ErrorKind::kIo);
  EXPECT_LE(answers, 4 * 4);  // connections times attempts
}

TEST_F(Download, BusyServersAreAskedAgain) {
  std::atomic<int> answers = 0;
  serve([&](const TestRequest& request) {
    TestReply busy;
    busy.status = ++answers % 2 == 1 ? 503 : 429;
    return answers <= 3 ? busy : file_reply(bytes_, request, etag_);
  });
  options_.connections = 1;
  expect_complete();
}

// All connections break at once: one failure, not sixteen.
TEST_F(Download, ACutLineCountsOnce) {
  std::atomic<int> answers = 0;
  serve([&](const TestRequest& request) {
    TestReply reply = file_reply(bytes_, request, etag_);
    if (++answers <= 5) reply.cut_after = 0;
    return reply;
  });
  options_.connections = 16;
  options_.span_ranges = 1;
  options_.failures_max = 5;
  expect_complete();
}

// Addresses behind redirects live for some minutes; then the origin gives another.
TEST_F(Download, AnAddressThatHasExpiredIsAskedForAgain) {
  std::atomic<int> tickets = 0;
  server_ = std::make_unique<TestWebServer>([&](const TestRequest& request) {
    TestReply reply;
    if (request.target == "/x.gguf") {
      reply.status = 302;
      reply.headers = {fmt::format("Location: /store?ticket={}", ++tickets)};
      return reply;
    }
    if (tickets == 1 && request.range->bytes() > 1 && request.range->begin > 0) {
      reply.status = 403;
      return reply;
    }
    return file_reply(bytes_, request, etag_);
  });
  file_ = {"x.gguf", *parse_web_address(server_->url("/x.gguf")), bytes_.size(),
           sha256_hex(bytes_of(bytes_))};
  expect_complete();
  EXPECT_GE(tickets, 2);
}

TEST_F(Download, AFileThatChangesMeanwhileIsRefused) {
  for (int status : {206, 200, 412, 416}) {
    serve([&](const TestRequest& request) {
      TestReply reply = file_reply(bytes_, request, "\"two\"");
      reply.status = status;
      return reply;
    });
    EXPECT_THAT(expect_error().message, HasSubstr("changed")) << status;
  }
}

TEST_F(Download, AFileThatChangedSinceTheLastTimeNeedsRestart) {
  fetch_some(3);
  bytes_ = test_bytes(kBytes, 2);
  etag_ = "\"two\"";
  serve_honestly();
  const Error error = expect_error();
  EXPECT_EQ(error.kind, ErrorKind::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("changed"));
  EXPECT_THAT(error.hint, HasSubstr("--restart"));
  EXPECT_EQ(read_journal(journal_path(path()))->ranges.size(), 3U);  // nothing is thrown away
  options_.if_changed = IfChanged::kRestart;
  expect_complete();
}

TEST_F(Download, AnotherEtagOfTheSameChecksumIsTheSameFile) {
  fetch_some(3);
  etag_ = "\"of another edge server\"";
  serve_honestly();
  expect_complete();
  EXPECT_EQ(server_->bytes_asked(), kBytes - 3 * kRangeBytes);
}

// The hub's checksum is right, the store's bytes are not.
TEST_F(Download, AWrongWholeIsNotTakenAndNotKept) {
  serve_honestly();
  file_.sha256 = std::string(64, 'a');
  EXPECT_THAT(expect_error().message, HasSubstr("SHA-256"));
  file_.sha256 = sha256_hex(bytes_of(bytes_));
  options_.if_changed = IfChanged::kRestart;
  expect_complete();
}

TEST_F(Download, ASizeOtherThanPromisedIsRefused) {
  serve_honestly();
  ++file_.bytes;
  EXPECT_EQ(expect_error().kind, ErrorKind::kCorrupt);
}

TEST_F(Download, NeitherEtagNorTimeIsNoFileToGoOnWith) {
  server_ = std::make_unique<TestWebServer>([this](const TestRequest& request) {
    TestReply reply = file_reply(bytes_, request, etag_);
    reply.headers.erase(reply.headers.begin());
    return reply;
  });
  file_ = {"x.gguf", *parse_web_address(server_->url("/x.gguf")), bytes_.size(), ""};
  EXPECT_EQ(expect_error().kind, ErrorKind::kUnsupported);
}

TEST_F(Download, StopsWhenAskedAndGoesOnLater) {
  std::atomic<bool> stop = false;
  serve([&](const TestRequest& request) {
    if (request.range->begin >= 2 * kRangeBytes) stop = true;
    return file_reply(bytes_, request, etag_);
  });
  options_.connections = 1;
  watch_.stop = [&] { return stop.load(); };
  auto end = download();
  ASSERT_TRUE(end.has_value()) << end.error().message;
  // A fast machine may be done before it is stopped.
  stop = false;
  watch_.stop = {};
  if (*end == DownloadEnd::kStopped) {
    EXPECT_GE(read_journal(journal_path(path()))->ranges.size(), 2U);
    expect_complete();
  }
}

// Nothing comes, and the connection stays open.
TEST_F(Download, ASilentServerIsGivenUp) {
  std::promise<void> over;
  const std::shared_future<void> is_over = over.get_future().share();
  serve([&](const TestRequest& request) {
    TestReply reply = file_reply(bytes_, request, etag_);
    reply.before_body = [is_over] { is_over.wait(); };
    return reply;
  });
  options_.failures_max = 0;
  options_.connections = 1;
  const Error error = expect_error();
  over.set_value();
  EXPECT_EQ(error.kind, ErrorKind::kIo);
}

TEST(Pacer, KeepsToTheRate) {
  Pacer pacer(1'000'000);
  EXPECT_EQ(pacer.delay_us(1'000'000, 10'000'000), 900'000U);  // a tenth of a second is made up for
  EXPECT_EQ(pacer.delay_us(1'000'000, 10'900'000), 1'000'000U);
  EXPECT_EQ(pacer.delay_us(500'000, 99'000'000), 400'000U);  // a pause earns no more than that
  Pacer free(0);
  EXPECT_EQ(free.delay_us(1'000'000'000, 5), 0U);
}

}  // namespace
}  // namespace kvasir::pull
