#include "server/telemetry/http_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/telemetry/metrics.h"
#include "tests/server/telemetry/local_socket.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr size_t kLargePage = 1 << 20;

class HttpEndpointTest : public testing::Test {
 protected:
  HttpEndpointTest() {
    HttpPage page = {
        .path = "/page",
        .parameter = "name",
        .render = [](const std::optional<std::string>& name) -> absl::StatusOr<std::string> {
          if (name == "nobody") return absl::NotFoundError("there is nobody");
          if (name == "everybody") throw std::bad_alloc();
          if (name == "somebody") throw std::runtime_error("nobody expects it");
          if (name == "large") return std::string(kLargePage, 'x');
          return absl::StrCat("<p>", name.value_or("no name"), "</p>\n");
        }};
    auto endpoint = HttpEndpoint::Start("127.0.0.1:0", {.metrics = metrics_.collectable(),
                                                        .ready = [this] { return ready_.load(); },
                                                        .pages = {std::move(page)}});
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }

  int port() const { return endpoint_->port(); }

  Metrics metrics_{"1.2.3"};
  std::atomic<bool> ready_ = false;
  std::unique_ptr<HttpEndpoint> endpoint_;
};

TEST_F(HttpEndpointTest, ServesTheRegistryOnAFreePort) {
  ASSERT_GT(port(), 0);
  const std::string answer = HttpGet(port(), "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("batchplan_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(HttpGet(port(), "/metrics?name=x"), HasSubstr("batchplan_build_info"));
}

TEST_F(HttpEndpointTest, AliveIsNotReady) {
  EXPECT_THAT(HttpGet(port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(HttpGet(port(), "/readyz"), StartsWith("HTTP/1.1 503 "));
  ready_ = true;
  EXPECT_THAT(HttpGet(port(), "/readyz"), StartsWith("HTTP/1.1 200 "));
  ready_ = false;
  EXPECT_THAT(HttpGet(port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(HttpGet(port(), "/readyz"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(HttpEndpointTest, HeadHasTheHeadersAlone) {
  const std::string answer = HttpRequest(port(), "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 3\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
  const std::string page = HttpRequest(port(), "HEAD /page?name=large HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(page, HasSubstr(absl::StrCat("\r\nContent-Length: ", kLargePage, "\r\n")));
  EXPECT_THAT(page, EndsWith("\r\n\r\n"));
}

TEST_F(HttpEndpointTest, APageGetsItsParameter) {
  const std::string answer = HttpGet(port(), "/page");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n<p>no name</p>\n"));
  for (const auto& [query, name] : std::map<std::string, std::string>{{"other=1", "no name"},
                                                                      {"name=", ""},
                                                                      {"name=a%2Fb+c&x", "a/b c"},
                                                                      {"x=%&name=%C3%A9", "é"}}) {
    EXPECT_THAT(HttpGet(port(), "/page?" + query), EndsWith("\n<p>" + name + "</p>\n")) << query;
  }
}

TEST_F(HttpEndpointTest, APageThatIsNotThereSaysWhy) {
  EXPECT_THAT(HttpGet(port(), "/page?name=nobody"),
              AllOf(StartsWith("HTTP/1.1 404 "), EndsWith("\r\n\r\nthere is nobody\n")));
  EXPECT_THAT(HttpGet(port(), "/page?name=everybody"),
              AllOf(StartsWith("HTTP/1.1 500 "), EndsWith("\r\n\r\nout of memory\n")));
  EXPECT_THAT(HttpGet(port(), "/page?name=somebody"),
              AllOf(StartsWith("HTTP/1.1 500 "), EndsWith("\r\n\r\nunexpected exception\n")));
  EXPECT_THAT(HttpRequest(port(), "POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
}

TEST_F(HttpEndpointTest, APageArrivesWholeHoweverLateItIsRead) {
  LocalSocket reader(port(), /*receive_bytes=*/16 << 10);
  reader.SendAll("GET /page?name=large HTTP/1.1\r\nHost: a\r\n\r\n");
  absl::SleepFor(absl::Milliseconds(200));
  const std::string answer = reader.ReceiveAll();
  EXPECT_THAT(answer, HasSubstr(absl::StrCat("\r\nContent-Length: ", kLargePage, "\r\n")));
  EXPECT_EQ(answer.size() - (answer.find("\r\n\r\n") + 4), kLargePage);
}

TEST_F(HttpEndpointTest, OtherPathsAreNotFound) {
  for (const char* path : {"/", "/metric", "/metrics/", "/metrics/../healthz/x",
                           "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/readyz%00"}) {
    const std::string answer = HttpGet(port(), path);
    EXPECT_THAT(answer, Not(StartsWith("HTTP/1.1 2"))) << path;
    EXPECT_THAT(answer, Not(HasSubstr("root:"))) << path;
  }
  EXPECT_THAT(HttpGet(port(), "/"),
              AllOf(StartsWith("HTTP/1.1 404 "), EndsWith("/metrics, /healthz, /readyz, /page\n")));
}

TEST_F(HttpEndpointTest, OtherMethodsAreNotAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH"}) {
    const std::string answer = HttpRequest(
        port(), std::string(method) + " /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(answer, HasSubstr("\r\nAllow: GET, HEAD\r\n")) << method;
  }
}

TEST_F(HttpEndpointTest, WhatIsNoRequestOrTooLargeIsTurnedAway) {
  const std::string long_header(2 * kMaxHttpRequestBytes, 'a');
  for (const std::string& request :
       {std::string("GET /metrics HTTP/1.1\r\nX: " + long_header + "\r\n\r\n"),
        std::string("GET /" + long_header + " HTTP/1.1\r\n\r\n"), std::string("\r\n\r\n"),
        std::string("BREW /metrics HTTP/1.1\r\n\r\n"), std::string(100'000, '\xff'),
        std::string("\x16\x03\x01\x02\x00\x01\x00", 7), std::string()}) {
    EXPECT_THAT(HttpRequest(port(), request), Not(HasSubstr(" 200 ")));
  }
  EXPECT_THAT(HttpGet(port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
}

// Twice as many clients as the server keeps; each has sent only `bytes`.
std::vector<std::unique_ptr<LocalSocket>> SlowClients(int port, std::string_view bytes,
                                                      size_t clients = 2 * kMaxHttpConnections) {
  std::vector<std::unique_ptr<LocalSocket>> slow;
  for (size_t i = 0; i < clients; ++i) {
    slow.push_back(std::make_unique<LocalSocket>(port));
    EXPECT_TRUE(slow.back()->connected());
    slow.back()->Send(bytes);
  }
  return slow;
}

TEST_F(HttpEndpointTest, ProbesAreAnsweredWhateverSlowClientsHold) {
  for (const char* bytes :
       {"", "GET /metr", "POST /metrics HTTP/1.1\r\nContent-Length: 9999\r\n\r\n",
        "GET /page?name=large HTTP/1.1\r\n\r\n"}) {
    const auto slow = SlowClients(port(), bytes);
    // Within its second, long before the others time out.
    const absl::Time start = absl::Now();
    for (int i = 0; i < 5; ++i) {
      EXPECT_THAT(HttpGet(port(), "/healthz"), StartsWith("HTTP/1.1 200 ")) << bytes;
    }
    EXPECT_LT(absl::Now() - start, 5 * absl::Seconds(1)) << bytes;
  }
}

TEST_F(HttpEndpointTest, ProbesAreAnsweredBesideClientsThatDribble) {
  const auto slow = SlowClients(port(), "GET /metrics HTTP/1.1\r\n", 200);
  for (int i = 0; i < 10; ++i) {
    for (const auto& dribbler : slow) dribbler->Send("X");
    EXPECT_THAT(HttpGet(port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  }
}

TEST_F(HttpEndpointTest, TheOldestThatIsNotDoneGivesWay) {
  const auto slow = SlowClients(port(), "GET /metr", kMaxHttpConnections + 1);
  EXPECT_EQ(slow.front()->ReceiveAll(), "");
  EXPECT_THAT(HttpGet(port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BATCHPLAN_ADDRESS_SANITIZER
#endif
#endif

TEST_F(HttpEndpointTest, ProbesAreAnsweredWhenTheProcessHasNoDescriptorLeft) {
#ifdef BATCHPLAN_ADDRESS_SANITIZER
  GTEST_SKIP() << "clang's checks of types need descriptors of their own";
#endif
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // Opened while the process still has descriptors.
  auto probe = std::make_unique<LocalSocket>();
  const int next = dup(0);
  close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_LT(dup(0), 0);
  EXPECT_TRUE(probe->Connect(port()));
  probe->SendAll("GET /healthz HTTP/1.1\r\n\r\n");
  const std::string answer = probe->ReceiveAll();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpEndpointTest, WhoDribblesIsCutOffToo) {
  LocalSocket dribbler(port());
  ASSERT_TRUE(dribbler.connected());
  // A byte now and then never completes the request; the server must end the connection.
  bool open = dribbler.Send("GET /metrics HTTP/1.1\r\n");
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (open && absl::Now() < give_up) {
    open = dribbler.Send("X") && !dribbler.ClosedWithin(absl::Milliseconds(50));
  }
  EXPECT_FALSE(open);
}

TEST_F(HttpEndpointTest, ManyClientsAtOnceAreAllAnswered) {
  std::vector<std::unique_ptr<LocalSocket>> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<LocalSocket>(port()));
    clients.back()->SendAll("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  for (const auto& client : clients) {
    EXPECT_THAT(client->ReceiveAll(), HasSubstr("batchplan_build_info"));
  }
}

TEST(HttpEndpointStartTest, ATakenPortIsAnErrorThatNamesIt) {
  Metrics metrics("1");
  const HttpContent content = {.metrics = metrics.collectable(), .ready = [] { return true; }};
  auto first = HttpEndpoint::Start("127.0.0.1:0", content);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = "127.0.0.1:" + std::to_string((*first)->port());
  auto second = HttpEndpoint::Start(address, content);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

TEST(HttpEndpointStartTest, AnAddressThatIsNoneIsAnError) {
  Metrics metrics("1");
  const auto endpoint = HttpEndpoint::Start(
      "nonsense:port", {.metrics = metrics.collectable(), .ready = [] { return true; }});
  EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace batchplan
