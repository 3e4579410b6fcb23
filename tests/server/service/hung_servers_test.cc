// How our clients cope with servers that hang (stopped, or behind a network that drops packets) and
// with servers that are away for a while.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "batchplan/client.h"
#include "tests/server/service/black_hole.h"
#include "tests/server/service/requests.h"
#include "tests/server/service/server_process.h"
#include "tests/support/redis_server.h"

namespace batchplan {
namespace {

using testing::RedisServer;

constexpr uint32_t kWorkers = 6;

// What the first call may lose: ten seconds until pings fail, and five to connect again. Later
// calls may lose less than a single ping needs. Both have a margin for busy machines.
constexpr absl::Duration kFirst = absl::Seconds(20);
constexpr absl::Duration kLater = absl::Seconds(4);

// A server process that can be stopped, or started again at the same port.
class HangingServer {
 public:
  explicit HangingServer(std::vector<std::string> flags = {}) : flags_(std::move(flags)) {
    Start("127.0.0.1:0");
  }
  ~HangingServer() { Kill(); }

  int port() const { return port_; }
  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }

  // Returns once the process has stopped.
  void Freeze() const {
    process_->Signal(SIGSTOP);
    waitpid(process_->pid(), nullptr, WUNTRACED);
  }
  void Thaw() const { process_->Signal(SIGCONT); }

  void Kill() {
    if (process_ == nullptr) return;
    process_->Signal(SIGKILL);
    process_->Wait();
    process_.reset();
  }
  void StartAgain() { Start(target()); }

 private:
  void Start(const std::string& address) {
    std::vector<std::string> flags = {absl::StrCat("--listen=", address), kNoMetrics};
    flags.insert(flags.end(), flags_.begin(), flags_.end());
    process_ = std::make_unique<ServerProcess>(std::move(flags));
    port_ = PortOf(process_->ReadUntil("event=listening"), "grpc");
    EXPECT_GT(port_, 0);
    process_->DropOutput();
  }

  const std::vector<std::string> flags_;
  int port_ = 0;
  std::unique_ptr<ServerProcess> process_;
};

std::string TargetOf(const std::vector<int>& ports) {
  return absl::StrCat("ipv4:", absl::StrJoin(ports, ",", [](std::string* out, int port) {
                        absl::StrAppend(out, "127.0.0.1:", port);
                      }));
}

v1::JoinBatchRequest PartOf(uint32_t worker, uint32_t world_size, uint64_t step) {
  v1::JoinBatchRequest part;
  part.set_worker(worker);
  part.set_world_size(world_size);
  *part.mutable_request() = ValidRequest(20);
  part.mutable_request()->set_job_id("hung");
  part.mutable_request()->set_step(step);
  return part;
}

// Workers of one job, each with its own connections.
class Workers {
 public:
  Workers(const std::string& target, const RemoteOptions& options) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      clients_.emplace_back(MakeRemoteConnection(target, options));
    }
  }

  // All workers join the next step and must get its plan; returns how long that lasted.
  absl::Duration Step() {
    const absl::Time start = absl::Now();
    {
      std::vector<std::jthread> threads;
      for (uint32_t worker = 0; worker < kWorkers; ++worker) {
        threads.emplace_back([this, worker] {
          const auto answer = clients_[worker].JoinBatch(PartOf(worker, kWorkers, step_),
                                                         {.timeout = absl::Minutes(2)});
          EXPECT_TRUE(answer.ok())
              << "worker " << worker << ", step " << step_ << ": " << answer.status();
        });
      }
    }
    ++step_;
    return absl::Now() - start;
  }

  // Expects at most one slow step: the first one that meets a hanging server. It may come later,
  // since workers use the replicas in turn.
  void ExpectOneSlowStepAtMost() {
    int slow = 0;
    for (int step = 0; step < 7; ++step) {
      const absl::Duration took = Step();
      EXPECT_LT(took, kFirst);
      if (took >= kLater) ++slow;
    }
    EXPECT_LE(slow, 1);
  }

 private:
  std::vector<Client> clients_;
  uint64_t step_ = 0;
};

TEST(HungServers, OneOfThreeReplicasThatIsFrozenCostsTheFirstStepSecondsAndLaterOnesNothing) {
  const RedisServer redis;
  const std::vector<std::string> flags = {absl::StrCat("--rendezvous_store=", redis.url())};
  HangingServer frozen(flags);
  const HangingServer second(flags);
  const HangingServer third(flags);
  Workers workers(TargetOf({frozen.port(), second.port(), third.port()}), {});
  for (int step = 0; step < 3; ++step) workers.Step();
  frozen.Freeze();
  workers.ExpectOneSlowStepAtMost();
  frozen.Thaw();
  for (int step = 0; step < 3; ++step) EXPECT_LT(workers.Step(), kLater);
}

TEST(HungServers, AReplicaBehindANetworkThatDropsPacketsIsLeftAlone) {
  const RedisServer redis;
  const std::vector<std::string> flags = {absl::StrCat("--rendezvous_store=", redis.url()),
                                          "--min_client_ping_interval=0.5"};
  const HangingServer cut_off(flags);
  const HangingServer second(flags);
  const HangingServer third(flags);
  BlackHole network(cut_off.port());
  // More frequent pings than by default, for a shorter test.
  RemoteOptions options;
  options.keepalive_time = absl::Seconds(2);
  options.keepalive_timeout = absl::Seconds(2);
  Workers workers(TargetOf({network.port(), second.port(), third.port()}), options);
  for (int step = 0; step < 3; ++step) workers.Step();
  network.Swallow();
  workers.ExpectOneSlowStepAtMost();
}

TEST(HungServers, TheFallbackPlansBesideAFrozenServerAndTheServerOnceItAnswersAgain) {
  HangingServer server;
  FallbackOptions quiet{[](const v1::PlanBatchRequest&, const absl::Status&) {}};
  const auto connection = MakeFallbackConnection(MakeRemoteConnection(server.target()),
                                                 MakeInProcessConnection(), quiet);
  // How long a plan lasts, by the server or by the fallback.
  const auto plan = [&](bool by_server) {
    const uint64_t before = connection->fallback_count();
    const absl::Time start = absl::Now();
    const auto planned = Client(connection).PlanBatch(ValidRequest());
    EXPECT_TRUE(planned.ok()) << planned.status();
    EXPECT_EQ(connection->fallback_count() == before, by_server);
    return absl::Now() - start;
  };
  EXPECT_LT(plan(true), kFirst);
  server.Freeze();
  EXPECT_LT(plan(false), kFirst);
  for (int call = 0; call < 3; ++call) EXPECT_LT(plan(false), kLater);
  server.Thaw();
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  uint64_t fallbacks = 0;
  do {
    fallbacks = connection->fallback_count();
    EXPECT_TRUE(Client(connection).PlanBatch(ValidRequest()).ok());
  } while (connection->fallback_count() > fallbacks && absl::Now() < give_up);
  plan(true);
}

TEST(HungServers, CallsWaitForAServerThatIsAwayForFiveSeconds) {
  HangingServer server;
  const Client client(MakeRemoteConnection(server.target()));
  ASSERT_TRUE(client.PlanBatch(ValidRequest()).ok());
  server.Kill();
  {
    std::jthread plan([&] {
      const auto planned = client.PlanBatch(ValidRequest(), {.timeout = absl::Minutes(1)});
      EXPECT_TRUE(planned.ok()) << planned.status();
    });
    std::jthread join([&] {
      const auto joined = client.JoinBatch(PartOf(0, 1, 0), {.timeout = absl::Minutes(1)});
      EXPECT_TRUE(joined.ok()) << joined.status();
    });
    std::jthread report([&] {
      const auto fit = client.ReportStep(ReportOf("hung", 0), {.timeout = absl::Minutes(1)});
      EXPECT_TRUE(fit.ok()) << fit.status();
    });
    absl::SleepFor(absl::Seconds(5));
    server.StartAgain();
  }
}

}  // namespace
}  // namespace batchplan
