// Replicas of the server that share a Redis: a step has one plan, whatever dies.

#include "tests/server/service/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "batchplan/client.h"
#include "tests/server/service/requests.h"
#include "tests/support/certificates.h"
#include "tests/support/generators.h"
#include "tests/support/redis_server.h"
#include "tests/support/reserved_port.h"
#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

using testing::RedisServer;

constexpr uint32_t kWorkers = 6;

// How long a worker waits for the others in one call. The second is longer than any call that meets
// one dying replica after another: the server answers first, unless it hangs.
constexpr absl::Duration kWait = absl::Seconds(2);
constexpr absl::Duration kHangs = absl::Seconds(60);

Client NewClient(const std::string& target, std::optional<int> max_attempts = {}) {
  RemoteOptions options;
  options.max_attempts = max_attempts;
  options.initial_backoff = absl::Milliseconds(10);
  options.max_backoff = absl::Milliseconds(200);
  return Client(MakeRemoteConnection(target, options));
}

enum class Costs { kDefault, kFitted };

v1::JoinBatchRequest PartOf(uint32_t worker, uint64_t step, Costs costs = Costs::kDefault) {
  v1::JoinBatchRequest part;
  part.set_worker(worker);
  part.set_world_size(kWorkers);
  part.mutable_timeout()->set_seconds(absl::ToInt64Seconds(kWait));
  v1::PlanBatchRequest* request = part.mutable_request();
  request->set_job_id("replicas");
  request->set_step(step);
  request->mutable_topology()->set_data_parallel(4);
  request->set_effort(v1::EFFORT_FAST);  // well within kWait, also under ThreadSanitizer
  request->add_passes()->set_max_tokens_per_microbatch(4096);
  if (costs == Costs::kFitted) request->mutable_cost_model()->set_fitted(true);
  for (uint32_t i = 0; i < 20; ++i) {
    request->mutable_manifest()->add_lengths(
        static_cast<uint32_t>(1 + (step * 7919 + worker * 104729 + i * 1299709) % 3000));
  }
  return part;
}

// Whether a worker that gets this instead of a plan can try again.
bool MayRetry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
}

// What the workers of all steps were told.
class Answers {
 public:
  void Add(uint64_t step, const absl::StatusOr<v1::JoinBatchResponse>& answer) {
    std::lock_guard lock(mutex_);
    if (answer.ok()) {
      const v1::CostModel& costs = answer->plan().cost_model_used();
      plans_[step].insert(absl::StrCat(answer->plan().fingerprint(), " ", costs.per_token(), " ",
                                       costs.per_token_squared(), " ", costs.per_microbatch()));
      ++answered_[step];
    } else {
      EXPECT_TRUE(MayRetry(answer.status())) << "step " << step << ": " << answer.status();
      EXPECT_FALSE(std::string(answer.status().message()).empty());
      last_error_[step] = answer.status();
    }
  }

  // How many workers got the step's plan.
  uint32_t answered(uint64_t step) const {
    std::lock_guard lock(mutex_);
    const auto found = answered_.find(step);
    return found == answered_.end() ? 0 : found->second;
  }

  // Expects that every worker of these steps got the plan.
  void ExpectAllAnswered(uint64_t first, uint64_t last) const {
    std::lock_guard lock(mutex_);
    for (uint64_t step = first; step < last; ++step) {
      const auto answered = answered_.find(step);
      const auto error = last_error_.find(step);
      EXPECT_EQ(answered == answered_.end() ? 0 : answered->second, kWorkers)
          << "step " << step << ": "
          << (error == last_error_.end() ? absl::OkStatus() : error->second);
    }
  }

  void ExpectOnePlanAStep() const {
    std::lock_guard lock(mutex_);
    for (const auto& [step, plans] : plans_) EXPECT_EQ(plans.size(), 1U) << "step " << step;
  }

 private:
  mutable std::mutex mutex_;
  // The plans and their costs, by step.
  std::map<uint64_t, std::set<std::string>> plans_;
  std::map<uint64_t, uint32_t> answered_;
  std::map<uint64_t, absl::Status> last_error_;
};

// Joins until there is a plan or `patience` is over; true with the plan.
bool JoinStep(const Client& client, const v1::JoinBatchRequest& part, absl::Duration patience,
              Answers* answers) {
  const absl::Time give_up = absl::Now() + patience;
  for (;;) {
    const absl::Time start = absl::Now();
    const auto answer = client.JoinBatch(part, {.timeout = kHangs});
    EXPECT_LT(absl::Now() - start, kHangs) << "the server hangs: " << answer.status();
    answers->Add(part.request().step(), answer);
    if (answer.ok()) return true;
    if (absl::Now() > give_up) return false;
  }
}

// Workers that go through steps at their own pace and over their own connections. A worker that
// gives up a step continues with the furthest step of any worker, as restarted trainers do.
// Otherwise equally patient workers that are one step apart would miss each other again and again.
class Workers {
 public:
  Workers(const std::string& target, uint64_t first, uint64_t last, absl::Duration patience,
          Answers* answers, Costs costs = Costs::kDefault)
      : furthest_(first), last_(last) {
    for (uint32_t worker = 0; worker < kWorkers; ++worker) {
      threads_.emplace_back([=, this] {
        const Client client = NewClient(target);
        for (uint64_t step = first; step < last_;) {
          const bool joined = JoinStep(client, PartOf(worker, step, costs), patience, answers);
          step = ComeTo(step + 1, joined);
        }
        ++ended_;
      });
    }
  }

  bool ended() const { return ended_ == kWorkers; }

  // Makes the next step of the furthest worker the last one, and returns it.
  uint64_t End() {
    std::lock_guard lock(mutex_);
    return last_ = furthest_ + 1;
  }

 private:
  // The step with which a worker continues, if `next` would be its next one.
  uint64_t ComeTo(uint64_t next, bool joined) {
    std::lock_guard lock(mutex_);
    furthest_ = std::max(furthest_, next);
    return joined ? next : furthest_;
  }

  std::mutex mutex_;
  uint64_t furthest_;
  // All earlier steps are completed.
  std::atomic<uint64_t> last_;
  std::atomic<uint32_t> ended_ = 0;
  std::vector<std::jthread> threads_;
};

// Runs such workers to their end.
void RunWorkers(const std::string& target, uint64_t first, uint64_t last, absl::Duration patience,
                Answers* answers) {
  const Workers workers(target, first, last, patience, answers);
}

// `count`, or a multiple of it in the test run before a release.
uint64_t AtLeast(uint64_t count) { return std::max(count, testing::Cases(count)); }

TEST(Replicas, ServeTheWorkersOfOneStepTogether) {
  const RedisServer redis;
  Replicas replicas(redis);
  Answers answers;
  RunWorkers(replicas.target(), 0, 20, absl::Minutes(1), &answers);
  answers.ExpectOnePlanAStep();
  answers.ExpectAllAnswered(0, 20);
}

// Again and again, replicas are killed and come back, and Redis is killed and comes back empty. A
// worker gets its step's one plan, or an error after which it may retry. Once all is well, every
// worker gets its plan.
TEST(Replicas, AStepHasOnePlanWhateverDies) {
  RedisServer redis;
  Replicas replicas(redis);
  Answers answers;
  uint64_t steps = std::numeric_limits<uint64_t>::max();
  {
    Workers workers(replicas.target(), 0, steps, absl::Seconds(3), &answers);
    std::mt19937 random(7);
    const auto pause = [&](int64_t least) {
      absl::SleepFor(absl::Milliseconds(least + static_cast<int64_t>(random() % 300)));
    };
    for (uint64_t death = 0; death < AtLeast(20); ++death) {
      if (random() % 4 == 0) {
        redis.Kill();
        pause(0);
        redis.Start();
      } else {
        Replica& replica = replicas[random() % kReplicas];
        replica.Kill();
        pause(0);
        replica.Start();
      }
      pause(200);
    }
    steps = workers.End();
  }
  RunWorkers(replicas.target(), steps, steps + 5, absl::Minutes(1), &answers);

  answers.ExpectOnePlanAStep();
  EXPECT_GT(steps, 20U);
  uint64_t complete = 0;
  for (uint64_t step = 0; step < steps; ++step) complete += answers.answered(step) == kWorkers;
  EXPECT_GT(complete, steps / 2) << "of " << steps;
  RecordProperty("steps", static_cast<int>(steps));
  RecordProperty("complete", static_cast<int>(complete));
  answers.ExpectAllAnswered(steps, steps + 5);
}

// A report of a device that gets slower with every step, so that the fit keeps changing.
v1::ReportStepRequest ReportOfSlowing(uint64_t step) {
  return ReportOf("replicas", step, 1 + 0.001 * static_cast<double>(step));
}

// The costs of a step change while replicas plan it, and the replicas die. The outcome that is
// written first is still everybody's.
TEST(Replicas, AStepOfFittedCostsHasOnePlanWhileTheFitMovesAndReplicasDie) {
  const RedisServer redis;
  Replicas replicas(redis);
  const Client client = NewClient(replicas.target());
  uint64_t reports = 0;
  for (; reports < 50; ++reports) {
    const auto fit = client.ReportStep(ReportOfSlowing(reports));
    ASSERT_TRUE(fit.ok()) << fit.status();
  }
  Answers answers;
  const uint64_t steps = AtLeast(100);
  {
    const Workers workers(replicas.target(), 0, steps, absl::Minutes(1), &answers, Costs::kFitted);
    for (size_t death = 0; !workers.ended(); ++death) {
      for (const uint64_t end = reports + 10; reports < end; ++reports) {
        static_cast<void>(client.ReportStep(ReportOfSlowing(reports)));
      }
      Replica& replica = replicas[death % kReplicas];
      replica.Kill();
      replica.Start();
    }
  }
  answers.ExpectOnePlanAStep();
  // Redis survived: in the end every worker gets its plan.
  answers.ExpectAllAnswered(0, steps);
}

// Once steps are forgotten whose workers were all served, nothing of them is left in replicas or
// Redis.
TEST(Replicas, LeaveNothingBehind) {
  const RedisServer redis;
  Replicas replicas(redis, {"--step_retention=10", "--step_time_to_live=30"});
  Answers answers;
  const auto run = [&](uint64_t first, uint64_t last) {
    RunWorkers(replicas.target(), first, last, absl::Minutes(1), &answers);
    // ctest ends a test that waits forever.
    while (redis.Command({"DBSIZE"}) != "0") absl::SleepFor(absl::Milliseconds(50));
  };
  run(0, 100);
  std::vector<size_t> descriptors;
  std::vector<size_t> threads;
  for (size_t i = 0; i < kReplicas; ++i) {
    descriptors.push_back(replicas[i].descriptors());
    threads.push_back(replicas[i].threads());
  }
  run(100, 1000);
  answers.ExpectAllAnswered(0, 1000);
  answers.ExpectOnePlanAStep();
  // Connections to Redis and threads are made as needed, up to a few, but not with every step.
  constexpr size_t kFew = 16;
  for (size_t i = 0; i < kReplicas; ++i) {
    while (replicas[i].descriptors() > descriptors[i] + kFew)
      absl::SleepFor(absl::Milliseconds(50));
    EXPECT_LE(replicas[i].threads(), threads[i] + kFew);
  }
}

// All workers but the first lose their answers, and Redis restarts empty.
TEST(Replicas, WorkersWhoLostTheirAnswersGetThePlanThoughRedisForgotAndTheFirstDoesNotComeAgain) {
  RedisServer redis;
  Replicas replicas(redis);
  Answers answers;
  for (int round = 0; round < 3; ++round) {
    const auto step = static_cast<uint64_t>(round);
    RunWorkers(replicas.target(), step, step + 1, absl::Minutes(1), &answers);
    redis.Kill();
    redis.Start();
    std::vector<std::jthread> again;
    for (uint32_t worker = 1; worker < kWorkers; ++worker) {
      again.emplace_back([&, worker] {
        v1::JoinBatchRequest part = PartOf(worker, step);
        part.mutable_timeout()->set_seconds(50);
        const auto answer = NewClient(replicas.target()).JoinBatch(part, {.timeout = kHangs});
        EXPECT_TRUE(answer.ok()) << answer.status();
        answers.Add(step, answer);
      });
    }
  }
  answers.ExpectOnePlanAStep();
}

// What this replica tells the only worker of a step in run `run`.
absl::Status JoinRun(const Replica& replica, const std::string& run, uint64_t step) {
  v1::JoinBatchRequest part = PartOf(0, step);
  part.set_world_size(1);
  part.mutable_request()->set_job_id("restarts");
  part.set_run_id(run);
  part.mutable_timeout()->set_seconds(50);
  return NewClient(absl::StrCat("ipv4:127.0.0.1:", replica.port()))
      .JoinBatch(part, {.timeout = kHangs})
      .status();
}

TEST(Replicas, AWorkerOfAnOldRunNeverSupersedesTheNewOneThoughRedisForgot) {
  RedisServer redis;
  Replicas replicas(redis);
  EXPECT_EQ(JoinRun(replicas[0], "old", 1), absl::OkStatus());
  EXPECT_EQ(JoinRun(replicas[1], "new", 1), absl::OkStatus());
  for (uint64_t step = 2; step < 5; ++step) {
    redis.Kill();
    redis.Start();
    // Only one replica that saw the order goes on; one has started since.
    replicas[step % kReplicas].Kill();
    replicas[step % kReplicas].Start();
    EXPECT_EQ(JoinRun(replicas[(step + 1) % kReplicas], "new", step), absl::OkStatus());
    for (size_t i = 0; i < kReplicas; ++i) {
      const absl::Status refused = JoinRun(replicas[i], "old", step);
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
      EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("run \"new\""));
    }
    for (size_t i = 0; i < kReplicas; ++i) {
      EXPECT_EQ(JoinRun(replicas[i], "new", 10 * step + i), absl::OkStatus());
    }
  }
}

// Workers that are waiting already, and workers that come meanwhile.
TEST(Replicas, ARedisThatIsAwayForAWhileCostsNobodyAnError) {
  RedisServer redis;
  Replicas replicas(redis);
  std::mutex mutex;
  bool stop = false;
  std::atomic<uint64_t> furthest = 0;
  std::map<uint64_t, std::set<std::string>> plans;
  std::vector<std::jthread> workers;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([&, worker] {
      const Client client = NewClient(replicas.target());
      // All workers end after the same step.
      for (uint64_t step = 0;; ++step) {
        {
          std::lock_guard lock(mutex);
          if (stop && step > furthest) return;
          furthest = std::max<uint64_t>(furthest, step);
        }
        v1::JoinBatchRequest part = PartOf(worker, step);
        part.mutable_timeout()->set_seconds(50);
        const auto answer = client.JoinBatch(part, {.timeout = kHangs});
        EXPECT_TRUE(answer.ok()) << "step " << step << ", worker " << worker << ": "
                                 << answer.status();
        if (!answer.ok()) return;
        std::lock_guard lock(mutex);
        plans[step].insert(answer->plan().fingerprint());
      }
    });
  }
  for (const absl::Duration outage : {absl::Seconds(10), absl::Seconds(1)}) {
    const uint64_t before = furthest;
    while (furthest < before + 5 && !HasFailure()) absl::SleepFor(absl::Milliseconds(10));
    redis.Kill();
    absl::SleepFor(outage);
    redis.Start();
  }
  const uint64_t before = furthest;
  while (furthest < before + 5 && !HasFailure()) absl::SleepFor(absl::Milliseconds(10));
  {
    std::lock_guard lock(mutex);
    stop = true;
  }
  workers.clear();
  for (const auto& [step, fingerprints] : plans) EXPECT_EQ(fingerprints.size(), 1U) << step;
}

// Waiting workers need as much memory as --max_waiting_bytes counts: their parts are in Redis, and
// here once.
TEST(Replicas, WorkersThatWaitTakeWhatTheirMessagesHave) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what is freed";
#endif
  const RedisServer redis;
  Replica replica({absl::StrCat("--rendezvous_store=", redis.url())});
  const std::string target = absl::StrCat("ipv4:127.0.0.1:", replica.port());
  const auto part_of = [](uint32_t worker, uint64_t step, int lengths) {
    v1::JoinBatchRequest part = PartOf(worker, step);
    part.mutable_timeout()->set_seconds(50);
    for (int i = 0; i < lengths; ++i) part.mutable_request()->mutable_manifest()->add_lengths(200);
    return part;
  };
  std::vector<std::jthread> waiting;
  const auto wait_for = [&](const std::string& steps) {
    // ctest ends a test that waits forever.
    while (redis.Command({"EVAL", "return #redis.call('KEYS', 'batchplan:v1:step:*')", "0"}) !=
           steps) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    // Until the memory of what was sent to Redis is freed.
    absl::SleepFor(absl::Milliseconds(300));
  };
  const auto join = [&](uint64_t step, int lengths) {
    waiting.emplace_back([&, step, lengths] {
      const auto answer =
          NewClient(target).JoinBatch(part_of(0, step, lengths), {.timeout = kHangs});
      EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
    });
  };
  join(0, 100);
  wait_for("1");
  const uint64_t before = replica.bytes();
  constexpr uint64_t kJoins = 40;
  constexpr int kLengths = 1'000'000;
  for (uint64_t step = 1; step <= kJoins; ++step) {
    join(step, kLengths);
    wait_for(std::to_string(step + 1));
  }
  const uint64_t messages = kJoins * part_of(0, 1, kLengths).ByteSizeLong();
  const double held = static_cast<double>(replica.bytes() - before) / static_cast<double>(messages);
  RecordProperty("held", std::to_string(held));
  // Keeping the message too would add one. The allocator keeps some of the rest.
  EXPECT_LT(held, 2);
  replica.Kill();
}

TEST(Replicas, ReachTheStoreOverTlsWithACertificateOfTheirOwn) {
  const ScratchDirectory files;
  const CertificateAuthority authority("authority");
  const PemPair theirs = authority.Issue("redis");
  const PemPair ours = authority.Issue("batchplan");
  const std::string trusted = files.Write("ca.pem", authority.certificate());
  const RedisServer redis({"--tls-cert-file", files.Write("redis.pem", theirs.certificate),
                           "--tls-key-file", files.Write("redis.key", theirs.key),
                           "--tls-ca-cert-file", trusted, "--requirepass", "secret"});
  Replicas replicas(
      redis, {absl::StrCat("--rendezvous_password=", files.Write("p", "secret\n")),
              absl::StrCat("--rendezvous_tls_ca=", trusted),
              absl::StrCat("--rendezvous_tls_certificate=",
                           files.Write("batchplan.pem", ours.certificate)),
              absl::StrCat("--rendezvous_tls_key=", files.Write("batchplan.key", ours.key))});
  Answers answers;
  RunWorkers(replicas.target(), 0, 2, absl::Minutes(1), &answers);
  answers.ExpectOnePlanAStep();
  answers.ExpectAllAnswered(0, 2);
}

TEST(Replicas, DoNotStartWithAStoreThatTheyCanNeverUse) {
  const auto output = [](std::vector<std::string> flags) {
    flags.insert(flags.end(), {kAnyPort, kNoMetrics});
    ServerProcess server(std::move(flags));
    std::string all = server.ReadAll();
    EXPECT_NE(server.Wait(), 0);
    return all;
  };
  EXPECT_THAT(output({"--rendezvous_store=rediss://redis", "--rendezvous_tls_ca=/no/such"}),
              ::testing::HasSubstr("--rendezvous_tls_ca=/no/such can't be used"));
  const testing::ReservedPort bus;
  const RedisServer cluster(
      {"--cluster-enabled", "yes", "--cluster-port", absl::StrCat(bus.number())});
  EXPECT_THAT(output({absl::StrCat("--rendezvous_store=", cluster.url())}),
              ::testing::HasSubstr("is a Redis Cluster"));
}

TEST(Replicas, PlanWithoutTheStoreAndFindItAgain) {
  RedisServer redis;
  Replicas replicas(redis);
  const Client client = NewClient(replicas.target());
  redis.Kill();
  v1::PlanBatchRequest alone = PartOf(0, 0).request();
  EXPECT_TRUE(client.PlanBatch(alone).ok());
  // With retries, the client's own time may be over first.
  const auto refused = NewClient(replicas.target(), 1).JoinBatch(PartOf(0, 0), {.timeout = kHangs});
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::AllOf(::testing::HasSubstr("--rendezvous_store"),
                               ::testing::HasSubstr("PlanBatch does not need it")));
  redis.Start();
  Answers answers;
  RunWorkers(replicas.target(), 0, 2, absl::Minutes(1), &answers);
  answers.ExpectOnePlanAStep();
  answers.ExpectAllAnswered(0, 2);
}

}  // namespace
}  // namespace batchplan
