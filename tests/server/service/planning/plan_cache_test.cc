#include "server/service/planning/plan_cache.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/planner/make_plan.h"
#include "server/service/planning/message_bytes.h"
#include "server/service/planning/plan_batch.h"
#include "tests/server/service/requests.h"
#include "tests/support/captured_log.h"
#include "tests/support/generators.h"
#include "tests/support/test_server.h"
#include "tests/support/wire_request.h"

namespace batchplan {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RandomStream;
using testing::Seeds;

PlanKey Key(uint64_t number) {
  PlanKey key = {};
  for (size_t i = 0; i < sizeof(number); ++i) key[i] = static_cast<uint8_t>(number >> (8 * i));
  return key;
}

// A plan that needs `bytes` in a cache.
std::shared_ptr<const CachedPlan> PlanOf(size_t bytes, uint32_t microbatches = 0) {
  auto plan = std::make_shared<CachedPlan>();
  plan->passes = {{.metrics = {.microbatches = microbatches}}};
  const grpc::Slice slice(std::string(bytes - plan->bytes(), 'x'));
  plan->body = grpc::ByteBuffer(&slice, 1);
  return plan;
}

// The specification of a cache, in a vector: the last used plan comes first.
class Model {
 public:
  explicit Model(size_t max_bytes) : max_bytes_(max_bytes) {}

  const CachedPlan* Find(uint64_t key) {
    const auto found = Position(key);
    if (found == entries_.end()) return nullptr;
    std::rotate(entries_.begin(), found, found + 1);
    return entries_.front().second.get();
  }

  void Insert(uint64_t key, const std::shared_ptr<const CachedPlan>& plan) {
    if (plan->bytes() * 4 > max_bytes_) return;
    if (const auto found = Position(key); found != entries_.end()) entries_.erase(found);
    entries_.insert(entries_.begin(), {key, plan});
    while (bytes() > max_bytes_) entries_.pop_back();
  }

  size_t bytes() const {
    size_t bytes = 0;
    for (const auto& [key, plan] : entries_) bytes += plan->bytes();
    return bytes;
  }

 private:
  using Entry = std::pair<uint64_t, std::shared_ptr<const CachedPlan>>;

  std::vector<Entry>::iterator Position(uint64_t key) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [key](const Entry& entry) { return entry.first == key; });
  }

  const size_t max_bytes_;
  std::vector<Entry> entries_;
};

TEST(PlanCacheTest, DoesWhatTheModelDoes) {
  for (const uint64_t seed : Seeds(100)) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    const size_t max_bytes = random.Between(1, 100'000);
    Metrics metrics("test");
    PlanCache cache(max_bytes, &metrics);
    Model model(max_bytes);
    for (int i = 0; i < 500; ++i) {
      const uint64_t key = random.Between(0, 30);
      if (random.Chance(50)) {
        const auto plan = PlanOf(random.Between(1000, random.Chance(20) ? 40'000 : 5000));
        cache.Insert(Key(key), plan);
        model.Insert(key, plan);
      } else {
        ASSERT_EQ(cache.Find(Key(key)).get(), model.Find(key));
      }
      ASSERT_EQ(cache.bytes(), model.bytes());
      ASSERT_LE(cache.bytes(), max_bytes);
    }
  }
}

TEST(PlanCacheTest, APlanOfMoreThanAQuarterIsNotKept) {
  Metrics metrics("test");
  PlanCache cache(10'000, &metrics);
  cache.Insert(Key(1), PlanOf(2501));
  EXPECT_EQ(cache.Find(Key(1)), nullptr);
  cache.Insert(Key(1), PlanOf(2500));
  EXPECT_NE(cache.Find(Key(1)), nullptr);
  EXPECT_THAT(prometheus::TextSerializer().Serialize(metrics.collectable()->Collect()),
              AllOf(HasSubstr("batchplan_plan_cache_hits_total 1\n"),
                    HasSubstr("batchplan_plan_cache_misses_total 1\n"),
                    HasSubstr("batchplan_plan_cache_bytes 2500\n"),
                    HasSubstr("batchplan_plan_cache_plans 1\n")));
}

TEST(PlanCacheTest, ARequestWhosePlanIsKnownToBeTooLargeIsNotHashed) {
  Metrics metrics("test");
  PlanCache cache(10'000, &metrics);
  v1::PlanBatchRequest small = ValidRequest(100);
  v1::PlanBatchRequest large = ValidRequest(2000);
  EXPECT_EQ(cache.KeyFor(&small), PlanKeyOf(&small));
  EXPECT_EQ(cache.KeyFor(&large), std::nullopt);
  cache.Insert(std::nullopt, PlanOf(1000));
  EXPECT_EQ(cache.Find(std::nullopt), nullptr);
  EXPECT_EQ(cache.bytes(), 0U);
  EXPECT_THAT(prometheus::TextSerializer().Serialize(metrics.collectable()->Collect()),
              HasSubstr("batchplan_plan_cache_misses_total 1\n"));
}

TEST(PlanCacheTest, ManyThreadsMayUseIt) {
  Metrics metrics("test");
  PlanCache cache(20'000, &metrics);
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&cache, thread] {
        RandomStream random(thread);
        for (int i = 0; i < 2000; ++i) {
          const uint64_t key = random.Between(0, 20);
          if (const auto plan = cache.Find(Key(key))) {
            EXPECT_EQ(plan->microbatches(), key);
          }
          cache.Insert(Key(key), PlanOf(1000, static_cast<uint32_t>(key)));
        }
      });
    }
  }
  EXPECT_LE(cache.bytes(), 20'000U);
}

TEST(PlanKeyTest, TheIdsDoNotCountAndAreLeftAsTheyWere) {
  for (const uint64_t seed : Seeds(50)) {
    v1::PlanBatchRequest request = testing::WireRequest(testing::GenerateRequest(seed));
    const PlanKey bare = PlanKeyOf(&request);
    request.set_job_id("job");
    request.set_request_id("id");
    request.set_step(seed);
    const v1::PlanBatchRequest before = request;
    EXPECT_EQ(PlanKeyOf(&request), bare);
    EXPECT_TRUE(MessageDifferencer::Equals(request, before));
  }
}

TEST(PlanKeyTest, EverythingElseCounts) {
  const std::vector<std::function<void(v1::PlanBatchRequest&)>> changes = {
      [](auto&) {},
      [](auto& request) { request.set_preset("verl"); },
      [](auto& request) { request.mutable_manifest()->set_lengths(5, 1); },
      [](auto& request) { request.mutable_manifest()->mutable_lengths()->SwapElements(0, 1); },
      [](auto& request) { request.mutable_manifest()->add_group_ids(5); },
      [](auto& request) { request.mutable_manifest()->set_pad_to(5); },
      [](auto& request) { request.mutable_manifest()->add_ranks(5); },
      [](auto& request) { request.mutable_manifest()->add_ages(5); },
      [](auto& request) { request.mutable_selection()->set_sequences(5); },
      [](auto& request) { request.mutable_selection()->set_groups(5); },
      [](auto& request) { request.mutable_selection()->set_max_tokens(5); },
      [](auto& request) { request.mutable_selection()->set_max_age(5); },
      [](auto& request) { request.mutable_selection()->set_max_overtaking(5); },
      [](auto& request) { request.mutable_mini_batches()->set_max_delay(5); },
      [](auto& request) { request.mutable_topology()->set_context_parallel(2); },
      [](auto& request) { request.mutable_mini_batches()->set_seed(1); },
      [](auto& request) { request.mutable_cost_model()->set_per_token(1); },
      [](auto& request) { request.set_synchronization(v1::SYNCHRONIZATION_ACCUMULATED); },
      [](auto& request) { request.set_effort(v1::EFFORT_FAST); },
      [](auto& request) { request.set_overlong(v1::OVERLONG_POLICY_DROP); },
      [](auto& request) { request.set_allow_empty_microbatches(true); },
      [](auto& request) { request.mutable_passes(0)->set_name("x"); },
      [](auto& request) { request.mutable_passes(0)->set_min_microbatches(0); },
      [](auto& request) { request.add_passes(); },
  };
  std::set<PlanKey> keys;
  for (const auto& change : changes) {
    v1::PlanBatchRequest request = ValidRequest();
    change(request);
    keys.insert(PlanKeyOf(&request));
  }
  EXPECT_EQ(keys.size(), changes.size());
}

TEST(CachedPlanTest, AnAnswerIsTheResponseWithItsOwnTime) {
  Metrics metrics("test");
  const PlanBatchConfig config = {.plan = MakePlan,
                                  .verify_plans = true,
                                  .max_message_bytes = 1 << 20,
                                  .observers = {.metrics = &metrics},
                                  .cache = nullptr};
  v1::PlanBatchResponse made;
  ASSERT_TRUE(PlanBatch(config, ValidRequest(), {}, &made).ok());
  const auto plan = MakeCachedPlan(ValidRequest(), made);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const int64_t nanoseconds : {0, 1, 1'500'000'000}) {
    const auto bytes = (*plan)->Answer(absl::Nanoseconds(nanoseconds));
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    v1::PlanBatchResponse answer;
    ASSERT_TRUE(ParseBytes(*bytes, &answer).ok());
    made.mutable_planning_time()->set_seconds(nanoseconds / 1'000'000'000);
    made.mutable_planning_time()->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
    EXPECT_TRUE(MessageDifferencer::Equals(answer, made));
  }
}

TEST(PlanOrRecallTest, WhatWasPlannedIsRecalledAndRecordedAgain) {
  Metrics metrics("test");
  PlanCache cache(1 << 20, &metrics);
  int planned = 0;
  const PlanBatchConfig config = {
      .plan =
          [&planned](const Manifest& manifest, const PlanOptions& options,
                     const std::stop_token& stop) {
            ++planned;
            return MakePlan(manifest, options, stop);
          },
      .verify_plans = true,
      .max_message_bytes = 1 << 20,
      .observers = {.metrics = &metrics},
      .cache = &cache};
  v1::PlanBatchRequest request = ValidRequest();
  const auto first = PlanOrRecall(config, &request, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->recalled);
  request.set_job_id("another");
  const auto second = PlanOrRecall(config, &request, {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->recalled);
  EXPECT_EQ(second->plan, first->plan);
  EXPECT_EQ(planned, 1);
  const std::string text = prometheus::TextSerializer().Serialize(metrics.collectable()->Collect());
  EXPECT_THAT(text, AllOf(HasSubstr("batchplan_plans_total{preset=\"nemo_rl_packing\"} 2\n"),
                          HasSubstr("batchplan_sequences_per_plan_sum 512\n"),
                          HasSubstr("batchplan_step_efficiency_count 2\n"),
                          HasSubstr("batchplan_plan_cache_hits_total 1\n")));

  // Errors are not kept.
  request.clear_passes();
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(PlanOrRecall(config, &request, {}).ok());
  EXPECT_THAT(prometheus::TextSerializer().Serialize(metrics.collectable()->Collect()),
              HasSubstr("batchplan_plan_cache_plans 1\n"));
}

TEST(PlanOrRecallTest, OverTheWireARecalledPlanIsThePlan) {
  CaptureLog();
  {
    ServerOptions options = TestServer::Options();
    options.plan_cache_bytes = 1 << 20;
    TestServer server(options);
    v1::PlanBatchResponse first;
    v1::PlanBatchResponse second;
    ASSERT_TRUE(PlanBatch(*server.NewStub(), ValidRequest(), &first).ok());
    ASSERT_TRUE(PlanBatch(*server.NewStub(), ValidRequest(), &second).ok());
    EXPECT_TRUE(second.has_planning_time());
    first.clear_planning_time();
    second.clear_planning_time();
    EXPECT_TRUE(MessageDifferencer::Equals(first, second));
  }
  EXPECT_THAT(CapturedLog(), AllOf(HasSubstr(" cache=miss "), HasSubstr(" cache=hit ")));
}

}  // namespace
}  // namespace batchplan
