// Right and wrong certificates of both sides, on a real server.

#include "server/service/security/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "batchplan/client.h"
#include "tests/server/service/requests.h"
#include "tests/support/captured_log.h"
#include "tests/support/certificates.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class TlsTest : public testing::Test {
 protected:
  // Makes `pair` the server's certificate.
  void WriteServer(const PemPair& pair) const {
    directory_.Write("server.key", pair.key);
    directory_.Write("server.pem", pair.certificate);
  }

  ServerOptions Options() const {
    ServerOptions options = TestServer::Options();
    options.tls_certificate = directory_.Path("server.pem");
    options.tls_key = directory_.Path("server.key");
    options.tls_reload_interval = absl::Seconds(1);
    return options;
  }

  // Options for clients with a certificate of `authority`.
  ServerOptions MutualOptions(const CertificateAuthority& authority) const {
    ServerOptions options = Options();
    options.tls_client_ca = directory_.Write("client_ca.pem", authority.certificate());
    return options;
  }

  // A client that trusts `authority`, and shows `pair` if given.
  Client NewClient(const TestServer& server, const CertificateAuthority& authority,
                   const PemPair& pair = {}) const {
    return Client(MakeRemoteConnection(server.target(), Trusting(authority, pair)));
  }

  RemoteOptions Trusting(const CertificateAuthority& authority, const PemPair& pair = {}) const {
    RemoteOptions options;
    options.tls.emplace();
    options.tls->root_certificates = directory_.Write("ca.pem", authority.certificate());
    if (!pair.key.empty()) {
      options.tls->certificate = directory_.Write("client.pem", pair.certificate);
      options.tls->key = directory_.Write("client.key", pair.key);
    }
    return options;
  }

  // The error of a plan with these options. It must not come from the deadline or from the
  // fallback. The server listens on one of the two addresses of localhost.
  static std::string Mistake(const TestServer& server, const RemoteOptions& options) {
    const std::string port = server.target().substr(server.target().rfind(':'));
    std::string message;
    for (const std::string& target : {server.target(), "localhost" + port}) {
      const auto connection =
          MakeFallbackConnection(MakeRemoteConnection(target, options), MakeInProcessConnection());
      const absl::Status status =
          Client(connection).PlanBatch(ValidRequest(), {.timeout = absl::Minutes(2)}).status();
      EXPECT_TRUE(absl::IsUnauthenticated(status)) << target << ": " << status;
      EXPECT_EQ(connection->fallback_count(), 0U);
      message = std::string(status.message());
    }
    return message;
  }

  // The error of starting a server with these options.
  static std::string StartError(const ServerOptions& options) {
    const absl::Status status = Server::Start(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  }

  const ScratchDirectory directory_;
  const CertificateAuthority authority_{"authority"};
  const CertificateAuthority stranger_{"stranger"};
};

TEST_F(TlsTest, AServerOfAnotherAuthorityIsNotTrusted) {
  WriteServer(stranger_.Issue("server"));
  const TestServer server(Options());
  EXPECT_THAT(Mistake(server, Trusting(authority_)),
              HasSubstr("the server's certificate is not accepted: unable to get local issuer"));
}

TEST_F(TlsTest, AServerWhoseCertificateHasEndedOrNotBegunIsNotTrusted) {
  for (const Validity& validity : {Validity{.from = -absl::Hours(2), .to = -absl::Hours(1)},
                                   Validity{.from = absl::Hours(1), .to = absl::Hours(2)}}) {
    WriteServer(authority_.Issue("server", validity));
    CaptureLog();
    const TestServer server(Options());
    EXPECT_THAT(Mistake(server, Trusting(authority_)),
                AnyOf(HasSubstr("certificate has expired"), HasSubstr("not yet valid")));
    EXPECT_THAT(CapturedLog(), HasSubstr("does not hold now"));
  }
}

TEST_F(TlsTest, TheNameInTheCertificateMustBeTheServers) {
  WriteServer(authority_.Issue("server"));
  const TestServer server(Options());
  for (const auto& [name, right] : {std::pair("localhost", true), std::pair("elsewhere", false)}) {
    RemoteOptions options = Trusting(authority_);
    options.tls->server_name = name;
    if (right) {
      EXPECT_TRUE(
          Client(MakeRemoteConnection(server.target(), options)).PlanBatch(ValidRequest()).ok());
    } else {
      EXPECT_THAT(Mistake(server, options), HasSubstr("as \"elsewhere\": "));
    }
  }
}

TEST_F(TlsTest, PlainTextIsNotServedOverTls) {
  WriteServer(authority_.Issue("server"));
  const TestServer server(Options());
  EXPECT_THAT(Mistake(server, {}), HasSubstr("speaks TLS, and RemoteOptions.tls is not set"));
  EXPECT_TRUE(NewClient(server, authority_).PlanBatch(ValidRequest()).ok());
}

TEST_F(TlsTest, AServerOfPlainTextIsNotSpokenTo) {
  const TestServer server;
  EXPECT_THAT(Mistake(server, Trusting(authority_)), HasSubstr("the server does not speak TLS"));
}

TEST_F(TlsTest, AServerThatIsAwayIsNoMistake) {
  RemoteOptions options = Trusting(authority_);
  options.max_attempts = 3;
  const auto plan = Client(MakeRemoteConnection("localhost:1", options)).PlanBatch(ValidRequest());
  EXPECT_TRUE(absl::IsUnavailable(plan.status())) << plan.status();
}

TEST_F(TlsTest, MutualTlsServesOnlyClientsOfItsAuthority) {
  WriteServer(authority_.Issue("server"));
  const CertificateAuthority clients("clients");
  const TestServer server(MutualOptions(clients));
  EXPECT_TRUE(
      NewClient(server, authority_, clients.Issue("worker")).PlanBatch(ValidRequest()).ok());
  const PemPair expired = clients.Issue("worker", {.from = -absl::Hours(2), .to = -absl::Hours(1)});
  EXPECT_THAT(Mistake(server, Trusting(authority_)), HasSubstr("asks for a certificate"));
  for (const PemPair& wrong : {stranger_.Issue("worker"), expired}) {
    EXPECT_THAT(Mistake(server, Trusting(authority_, wrong)),
                HasSubstr("the server refuses RemoteOptions.tls.certificate, "));
  }
  EXPECT_TRUE(
      NewClient(server, authority_, clients.Issue("worker")).PlanBatch(ValidRequest()).ok());
}

TEST_F(TlsTest, FilesThatCantBeUsedAreRefusedAtTheStartByFlagAndFile) {
  const PemPair pair = authority_.Issue("server");
  WriteServer(pair);
  const ServerOptions good = Options();
  ServerOptions options = good;
  options.tls_certificate = directory_.Path("missing.pem");
  EXPECT_EQ(StartError(options),
            "--tls_certificate=" + options.tls_certificate + ": can't be read");
  options = good;
  options.tls_key = directory_.Path("missing.key");
  EXPECT_EQ(StartError(options), "--tls_key=" + options.tls_key + ": can't be read");
  options = good;
  options.tls_certificate = directory_.Write("empty.pem", "");
  EXPECT_THAT(StartError(options), HasSubstr("empty.pem: holds no PEM certificate"));
  options = good;
  options.tls_certificate = options.tls_key;
  EXPECT_THAT(StartError(options),
              AllOf(HasSubstr("--tls_certificate="), HasSubstr("holds no PEM certificate")));
  options = good;
  options.tls_certificate =
      directory_.Write("cut.pem", pair.certificate + pair.certificate.substr(0, 200));
  EXPECT_THAT(StartError(options), HasSubstr("cut.pem: certificate 2 can't be parsed"));
  options = good;
  options.tls_key = directory_.Write("garbage.key", pair.key.substr(0, 100));
  EXPECT_THAT(StartError(options), HasSubstr("garbage.key: holds no PEM private key"));
  options = good;
  options.tls_key = directory_.Write("other.key", authority_.Issue("other").key);
  EXPECT_EQ(StartError(options),
            "--tls_key=" + options.tls_key +
                ": is not the key of --tls_certificate=" + options.tls_certificate);
  options = good;
  options.tls_client_ca = directory_.Write("no_ca.pem", pair.key);
  EXPECT_THAT(StartError(options), HasSubstr("--tls_client_ca=" + options.tls_client_ca));
}

TEST_F(TlsTest, ANewCertificateIsShownWithoutARestartWhileCallsGoOn) {
  WriteServer(authority_.Issue("server"));
  TestServer server(Options());
  // Existing connections stay; each client here trusts only one of the two authorities.
  const Client old_client = NewClient(server, authority_);
  ASSERT_TRUE(old_client.PlanBatch(ValidRequest()).ok());
  std::atomic<bool> stop = false;
  std::atomic<int> failed = 0;
  std::jthread calls([&] {
    while (!stop) failed += old_client.PlanBatch(ValidRequest()).ok() ? 0 : 1;
  });
  WriteServer(stranger_.Issue("renewed"));
  // gRPC looks every second; how long that lasts on a busy machine is not asserted.
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  bool renewed = false;
  while (!renewed && absl::Now() < give_up) {
    renewed = NewClient(server, stranger_).PlanBatch(ValidRequest()).ok();
  }
  EXPECT_TRUE(renewed);
  EXPECT_FALSE(NewClient(server, authority_).PlanBatch(ValidRequest()).ok());
  stop = true;
  calls.join();
  EXPECT_EQ(failed, 0);
  CaptureLog();
  WriteServer(stranger_.Issue("renewed again"));
  server.server().ReloadFiles();
  EXPECT_THAT(CapturedLog(), HasSubstr("\"CN=renewed again\""));
}

TEST_F(TlsTest, AKeyOfAnotherCertificateIsLoggedOnceAndMendedByTheNextPair) {
  WriteServer(authority_.Issue("server"));
  TestServer server(Options());
  CaptureLog();
  directory_.Write("server.key", authority_.Issue("other").key);
  server.server().ReloadFiles();
  server.server().ReloadFiles();
  const std::string log = CapturedLog();
  EXPECT_THAT(log, HasSubstr("is not the key of --tls_certificate="));
  EXPECT_EQ(log.find("ERROR event=tls_files"), log.rfind("ERROR event=tls_files"));
  WriteServer(authority_.Issue("mended"));
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  bool served = false;
  while (!served && absl::Now() < give_up) {
    served = NewClient(server, authority_).PlanBatch(ValidRequest()).ok();
  }
  EXPECT_TRUE(served);
}

}  // namespace
}  // namespace batchplan
