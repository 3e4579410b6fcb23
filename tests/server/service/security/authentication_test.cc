// Bearer tokens, on a real server over TLS.

#include "server/service/security/authentication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "batchplan/client.h"
#include "tests/server/service/requests.h"
#include "tests/support/captured_log.h"
#include "tests/support/certificates.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test_server.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGrpoToken[] = "token-for-grpo-jobs-0001";
constexpr char kAdminToken[] = "token-for-all-the-jobs-2";

class AuthenticationTest : public testing::Test {
 protected:
  AuthenticationTest() {
    const PemPair pair = authority_.Issue("server");
    ServerOptions options = TestServer::Options();
    options.tls_certificate = directory_.Write("server.pem", pair.certificate);
    options.tls_key = directory_.Write("server.key", pair.key);
    options.auth_tokens =
        directory_.Write("tokens", std::string(kGrpoToken) + " grpo-\n" + kAdminToken + " *\n");
    directory_.Write("ca.pem", authority_.certificate());
    server_ = std::make_unique<TestServer>(options);
  }

  // A channel without a token; `context` has what is sent.
  std::shared_ptr<grpc::Channel> NewChannel() const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = authority_.certificate();
    return grpc::CreateChannel(server_->target(), grpc::SslCredentials(options));
  }

  // Calls PlanBatch for `job` with these authorization headers.
  static grpc::Status Plan(const std::shared_ptr<grpc::Channel>& channel, const std::string& job,
                           const std::vector<std::string>& headers) {
    grpc::ClientContext context;
    context.set_deadline(GenerousDeadline());
    for (const std::string& header : headers) context.AddMetadata("authorization", header);
    v1::PlanBatchRequest request = ValidRequest();
    request.set_job_id(job);
    v1::PlanBatchResponse response;
    return v1::BatchPlanner::NewStub(channel)->PlanBatch(&context, request, &response);
  }

  grpc::Status Plan(const std::string& job, const std::vector<std::string>& headers) const {
    return Plan(NewChannel(), job, headers);
  }

  static std::string Bearer(const std::string& token) { return "Bearer " + token; }

  const ScratchDirectory directory_;
  const CertificateAuthority authority_{"authority"};
  std::unique_ptr<TestServer> server_;
};

TEST(OwnerTest, APeerIsItsAddressWithoutThePort) {
  EXPECT_EQ(OwnerOfPeer("ipv4:10.0.0.7:51234"), "ipv4:10.0.0.7");
  EXPECT_EQ(OwnerOfPeer("ipv4:10.0.0.7:1"), "ipv4:10.0.0.7");
  EXPECT_NE(OwnerOfPeer("ipv4:10.0.0.8:1"), "ipv4:10.0.0.7");
  EXPECT_EQ(OwnerOfPeer("unix:/run/batchplan.sock"), OwnerOfPeer("unix:"));
}

TEST(OwnerTest, AnIpv6PeerIsItsNetworkOf64Bits) {
  EXPECT_EQ(OwnerOfPeer("ipv6:%5B2001:db8:1:2:aaaa::1%5D:51234"), "ipv6:2001:db8:1:2::/64");
  EXPECT_EQ(OwnerOfPeer("ipv6:[2001:db8:1:2:ffff::9]:4"), "ipv6:2001:db8:1:2::/64");
  EXPECT_EQ(OwnerOfPeer("ipv6:[2001:db8:1:3::1]:4"), "ipv6:2001:db8:1:3::/64");
  EXPECT_EQ(OwnerOfPeer("ipv6:%5Bfe80::1%25eth0%5D:4"), "ipv6:fe80::/64");
  EXPECT_EQ(OwnerOfPeer("ipv6:%5B::1%5D:51234"), "ipv6:::/64");
}

TEST(OwnerTest, WhatGrpcNeverSendsIsAnOwnerToo) {
  for (const char* odd : {"", ":", "ipv4", "ipv4:", "ipv6:", "ipv6:[", "ipv6:]:1", "vsock:3:4"}) {
    static_cast<void>(OwnerOfPeer(odd));
  }
}

TEST_F(AuthenticationTest, ATokenPlansForTheJobsOfItsPrefixOnly) {
  EXPECT_TRUE(Plan("grpo-7b", {Bearer(kGrpoToken)}).ok());
  EXPECT_TRUE(Plan("grpo-", {"bearer " + std::string(kGrpoToken)}).ok());
  for (const char* job : {"sft-7b", "", "grpo", "GRPO-7b", " grpo-7b"}) {
    const grpc::Status status = Plan(job, {Bearer(kGrpoToken)});
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << job;
    EXPECT_THAT(status.error_message(), HasSubstr("job_id is \"" + std::string(job) + "\""));
    EXPECT_THAT(status.error_message(), HasSubstr("\"grpo-...\""));
    EXPECT_TRUE(Plan(job, {Bearer(kAdminToken)}).ok()) << job;
  }
}

TEST_F(AuthenticationTest, WithoutARightTokenACallIsNotAuthenticated) {
  for (const std::vector<std::string>& headers :
       std::vector<std::vector<std::string>>{{},
                                             {Bearer("")},
                                             {Bearer("wrong-token-of-a-good-length")},
                                             {kGrpoToken},
                                             {"Basic " + std::string(kGrpoToken)},
                                             {"Bearer  " + std::string(kGrpoToken)},
                                             {Bearer(std::string(kGrpoToken) + "x")},
                                             {Bearer("*")},
                                             {Bearer(kGrpoToken), Bearer(kAdminToken)}}) {
    const grpc::Status status = Plan("grpo-7b", headers);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << status.error_message();
    EXPECT_THAT(status.error_message(), Not(HasSubstr("grpo-jobs")));
  }
  EXPECT_THAT(
      server_->MetricsText(),
      HasSubstr("batchplan_requests_total{code=\"UNAUTHENTICATED\",method=\"PlanBatch\"} 9\n"));
}

TEST_F(AuthenticationTest, CallsOfOneConnectionKeepTheirOwnTokens) {
  const std::shared_ptr<grpc::Channel> channel = NewChannel();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Plan(channel, "sft", {Bearer(kAdminToken)}).ok());
    EXPECT_EQ(Plan(channel, "sft", {Bearer(kGrpoToken)}).error_code(),
              grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(Plan(channel, "sft", {}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_TRUE(Plan(channel, "grpo-1", {Bearer(kGrpoToken)}).ok());
  }
}

TEST_F(AuthenticationTest, HealthNeedsNoTokenAndReflectionDoes) {
  std::string answer;
  EXPECT_TRUE(CallBytes(NewChannel(), "/grpc.health.v1.Health/Check", "", &answer).ok());
  EXPECT_EQ(answer, std::string("\x08\x01"));
  EXPECT_EQ(
      CallBytes(NewChannel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                std::string("\x3a\x00", 2), &answer)
          .error_code(),
      grpc::StatusCode::UNAUTHENTICATED);
  // A path that only begins like one of the health service needs a token.
  EXPECT_NE(CallBytes(NewChannel(), "/grpc.health.v1.HealthX/Check", "", &answer).error_code(),
            grpc::StatusCode::OK);
}

TEST_F(AuthenticationTest, ANewFileOfTokensHoldsAfterAReloadAndABadOneDoesNot) {
  const std::string fresh = "a-fresh-token-0123456789";
  EXPECT_EQ(Plan("grpo-1", {Bearer(fresh)}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  directory_.Write("tokens", fresh + " grpo-\n");
  server_->server().ReloadFiles();
  EXPECT_TRUE(Plan("grpo-1", {Bearer(fresh)}).ok());
  EXPECT_EQ(Plan("grpo-1", {Bearer(kGrpoToken)}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  directory_.Write("tokens", "short *\n");
  CaptureLog();
  server_->server().ReloadFiles();
  server_->server().ReloadFiles();
  EXPECT_TRUE(Plan("grpo-1", {Bearer(fresh)}).ok());
  const std::string log = CapturedLog();
  EXPECT_THAT(log, HasSubstr("ERROR event=tokens"));
  EXPECT_EQ(log.find("event=tokens"), log.rfind("event=tokens"));  // said once
}

TEST_F(AuthenticationTest, TokensAreNotLogged) {
  CaptureLog();
  EXPECT_TRUE(Plan("grpo-7b", {Bearer(kGrpoToken)}).ok());
  EXPECT_FALSE(Plan("sft", {Bearer(kGrpoToken)}).ok());
  EXPECT_FALSE(Plan("sft", {Bearer("wrong-token-of-a-good-length")}).ok());
  server_.reset();
  const std::string log = CapturedLog();
  EXPECT_THAT(log, HasSubstr("event=refused method=/batchplan.v1.BatchPlanner/PlanBatch"));
  EXPECT_THAT(log, HasSubstr("code=PERMISSION_DENIED"));
  EXPECT_THAT(log, Not(HasSubstr("token-for-grpo")));
  EXPECT_THAT(log, Not(HasSubstr("wrong-token-of")));
}

int Occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(AuthenticationTest, RefusalsAreWarningsAndOfManyAFewAreLogged) {
  constexpr int kCalls = 60;
  CaptureLog();
  const absl::Time start = absl::Now();
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_FALSE(Plan("grpo-7b", {Bearer("wrong-token-of-a-good-length")}).ok());
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const std::string log = CapturedLog();
  EXPECT_GE(Occurrences(log, "WARNING event=refused "), 1);
  EXPECT_LE(Occurrences(log, "event=refused "), 1 + kRefusalsLogged * (1 + seconds));
  EXPECT_EQ(
      server_->Metric("batchplan_requests_total{code=\"UNAUTHENTICATED\",method=\"PlanBatch\"}"),
      kCalls);
}

TEST_F(AuthenticationTest, OurClientSendsTheTokenOfItsFileAndFollowsIt) {
  RemoteOptions options;
  options.tls.emplace();
  options.tls->root_certificates = directory_.Path("ca.pem");
  options.token_file = directory_.Write("client_token", std::string(kGrpoToken) + "\n");
  const Client client(MakeRemoteConnection(server_->target(), options));
  v1::PlanBatchRequest request = ValidRequest();
  request.set_job_id("sft");
  EXPECT_TRUE(absl::IsPermissionDenied(client.PlanBatch(request).status()));
  directory_.Write("client_token", kAdminToken);
  EXPECT_TRUE(client.PlanBatch(request).ok());
  directory_.Write("client_token", "a-token-of-no-server-at-all");
  EXPECT_TRUE(absl::IsUnauthenticated(client.PlanBatch(request).status()));
}

}  // namespace
}  // namespace batchplan
