#include "server/rendezvous/part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/rendezvous/terms.h"
#include "tests/support/generators.h"

namespace batchplan {
namespace {

constexpr uint64_t kAnyNumber = std::numeric_limits<int32_t>::max();

using ::testing::HasSubstr;
using testing::RandomStream;
using testing::Seeds;

v1::JoinBatchRequest Request(uint32_t worker = 0, uint32_t world_size = 4) {
  v1::JoinBatchRequest request;
  request.set_worker(worker);
  request.set_world_size(world_size);
  request.mutable_request()->set_job_id("job");
  request.mutable_request()->set_step(7);
  request.mutable_request()->mutable_manifest()->set_pad_to(4096);
  return request;
}

// Gives the part these sequences.
void Sequences(v1::JoinBatchRequest& request, const std::vector<uint32_t>& lengths,
               const std::vector<uint32_t>& prefixes, const std::vector<uint32_t>& with) {
  v1::Manifest& manifest = *request.mutable_request()->mutable_manifest();
  manifest.mutable_lengths()->Add(lengths.begin(), lengths.end());
  manifest.mutable_shared_prefixes()->Add(prefixes.begin(), prefixes.end());
  manifest.mutable_shared_with()->Add(with.begin(), with.end());
}

struct Case {
  const char* message;
  void (*change)(v1::JoinBatchRequest&);
};

TEST(PartTest, WhatIsWrongIsNamedWithItsValueAndLimit) {
  const Case cases[] = {
      {"request.job_id is empty",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->clear_job_id(); }},
      {"request.job_id has 129 bytes; the limit is 128",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->set_job_id(std::string(129, 'x')); }},
      {"world_size is 0; it must be between 1 and 65536",
       [](v1::JoinBatchRequest& r) { r.set_world_size(0); }},
      {"world_size is 65537; it must be between 1 and 65536",
       [](v1::JoinBatchRequest& r) { r.set_world_size(65537); }},
      {"worker is 4; it must be below world_size 4",
       [](v1::JoinBatchRequest& r) { r.set_worker(4); }},
      {"data_parallel_rank is 1; it must be below request.topology.data_parallel 1",
       [](v1::JoinBatchRequest& r) { r.set_data_parallel_rank(1); }},
      {"data_parallel_rank is 2; it must be below request.topology.data_parallel 2",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_topology()->set_data_parallel(2);
         r.set_data_parallel_rank(2);
       }},
      {"data_parallel_rank is 6; with request.topology.dynamic_context it must be below "
       "data_parallel 2 * context_parallel, 6",
       [](v1::JoinBatchRequest& r) {
         v1::Topology& topology = *r.mutable_request()->mutable_topology();
         topology.set_data_parallel(2);
         topology.set_context_parallel(3);
         topology.mutable_dynamic_context();
         r.set_data_parallel_rank(6);
       }},
      {"own_part_only is set without own_slice_only",
       [](v1::JoinBatchRequest& r) { r.set_own_part_only(true); }},
      {"timeout is -1 s", [](v1::JoinBatchRequest& r) { r.mutable_timeout()->set_seconds(-1); }},
      {"timeout is 0 s and -1 ns",
       [](v1::JoinBatchRequest& r) { r.mutable_timeout()->set_nanos(-1); }},
      {"request.manifest.group_ids has 1 entries, but lengths has 0",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->mutable_manifest()->add_group_ids(1); }},
      {"request.manifest.ranks has 1 entries, but lengths has 0",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->mutable_manifest()->add_ranks(0); }},
      {"request.manifest.ages has 1 entries, but lengths has 0",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->mutable_manifest()->add_ages(0); }},
      {"request.manifest.kinds has 1 entries, but manifest.lengths has 0",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->mutable_manifest()->add_kinds(0); }},
      {"request.manifest.loads[0].values of \"patches\" has 1 entries",
       [](v1::JoinBatchRequest& r) {
         v1::Load& load = *r.mutable_request()->mutable_manifest()->add_loads();
         load.set_name("patches");
         load.add_values(1);
       }},
      {"request.manifest.items[0].sequences[0] is 1, but manifest.lengths has 1 sequences",
       [](v1::JoinBatchRequest& r) {
         v1::Manifest& manifest = *r.mutable_request()->mutable_manifest();
         manifest.add_lengths(5);
         manifest.add_loads()->set_name("patches");
         manifest.add_items()->set_load("patches");
         manifest.mutable_items(0)->add_sequences(1);
         manifest.mutable_items(0)->add_values(1);
       }},
      {"request.manifest.shared_prefixes has 1 entries, but lengths has 0",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_manifest()->add_shared_prefixes(0);
       }},
      {"request.manifest.shared_with has 1 entries, but lengths has 0",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_manifest()->add_shared_with(0);
       }},
      {"request.manifest.shared_with is set, but shared_prefixes is empty; give both, or none",
       [](v1::JoinBatchRequest& r) { Sequences(r, {5}, {}, {0}); }},
      {"request.manifest.shared_prefixes is set, but neither shared_with nor group_ids say with "
       "whom",
       [](v1::JoinBatchRequest& r) { Sequences(r, {5}, {1}, {}); }},
      {"request.manifest.shared_with[1] is 1; it must be below 1, an earlier sequence of the part",
       [](v1::JoinBatchRequest& r) {
         Sequences(r, {5, 6}, {0, 1}, {9, 1});
       }},
      {"request.manifest.shared_with[1] is 4294967295; it must be below 1",
       [](v1::JoinBatchRequest& r) {
         Sequences(r, {5, 6}, {0, 1}, {9, 4294967295});
       }},
      {"request.manifest.shared_prefixes[1] is 6, but of the two sequences that share it number 1 "
       "has "
       "6 tokens and number 0 has 5",
       [](v1::JoinBatchRequest& r) {
         Sequences(r, {5, 6}, {0, 6}, {0, 0});
       }},
      {"request.manifest.shared_prefixes[2] is 7, but of the two sequences that share it number 2 "
       "has "
       "6 tokens",
       [](v1::JoinBatchRequest& r) {
         // The first of a group may share with one of another part, or with none.
         Sequences(r, {5, 6, 6}, {9, 9, 7}, {});
         for (const uint32_t group : {3, 4, 3}) {
           r.mutable_request()->mutable_manifest()->add_group_ids(group);
         }
       }},
      {"request.manifest.ranks[0] is 2; it must be below request.topology.data_parallel 2",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_topology()->set_data_parallel(2);
         r.mutable_request()->mutable_manifest()->add_lengths(1);
         r.mutable_request()->mutable_manifest()->add_ranks(2);
       }},
      {"request.manifest.lengths[1] is 0; it must be at least 1",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_manifest()->add_lengths(1);
         r.mutable_request()->mutable_manifest()->add_lengths(0);
       }},
  };
  EXPECT_TRUE(ValidateJoin(Request()).ok()) << "a worker may have no sequence";
  for (const Case& c : cases) {
    v1::JoinBatchRequest request = Request();
    c.change(request);
    const absl::Status status = ValidateJoin(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

TEST(PartTest, TheLargestWorldIsValid) {
  EXPECT_TRUE(ValidateJoin(Request(65535, 65536)).ok());
  EXPECT_TRUE(ValidateJoin(Request(0, 1)).ok());
}

// What all of a request's loads become once those of a part, which begins at `first`, are behind.
void AppendLoads(const v1::Manifest& part, uint32_t first, v1::Manifest& whole) {
  if (whole.loads().empty()) {
    for (const v1::Load& load : part.loads()) whole.add_loads()->set_name(load.name());
    for (const v1::LoadItems& items : part.items()) whole.add_items()->set_load(items.load());
  }
  for (int i = 0; i < part.loads_size(); ++i) {
    for (const double value : part.loads(i).values()) whole.mutable_loads(i)->add_values(value);
  }
  for (int i = 0; i < part.items_size(); ++i) {
    for (const uint32_t own : part.items(i).sequences()) {
      whole.mutable_items(i)->add_sequences(first + own);
    }
    for (const double value : part.items(i).values()) whole.mutable_items(i)->add_values(value);
  }
}

TEST(PartTest, PartsAddUpToTheWholeRequest) {
  for (const uint64_t seed : Seeds(200)) {
    RandomStream random(seed);
    RandomStream asks(seed ^ 0x61736B);
    const auto world_size = static_cast<uint32_t>(random.Between(1, 9));
    const bool grouped = random.Chance(50);
    const bool dispatched = random.Chance(50);
    const bool aged = random.Chance(50);
    const bool shares = random.Chance(50);
    const bool says_with = shares && (!grouped || random.Chance(50));
    const bool of_kinds = random.Chance(50);
    const bool loaded = random.Chance(50);
    const bool itemized = random.Chance(50);
    v1::PlanBatchRequest expected = Request().request();
    std::vector<uint32_t> offsets = {0};
    std::vector<std::string> contents;
    std::string terms;
    for (uint32_t worker = 0; worker < world_size; ++worker) {
      v1::JoinBatchRequest request = Request(worker, world_size);
      v1::Manifest& part = *request.mutable_request()->mutable_manifest();
      const uint64_t sequences = random.Chance(30) ? 0 : random.Between(1, 20);
      // A worker without sequences may leave them out.
      const bool names = sequences > 0 || random.Chance(50);
      if (loaded && names) part.add_loads()->set_name("frames");
      if (itemized && names) {
        part.add_loads()->set_name("patches");
        part.add_items()->set_load("patches");
      }
      for (uint64_t i = 0; i < sequences; ++i) {
        part.add_lengths(static_cast<uint32_t>(random.Between(1, 4096)));
        if (grouped) part.add_group_ids(static_cast<uint32_t>(random.Between(0, 5)));
        if (dispatched) part.add_ranks(0);
        if (aged) part.add_ages(static_cast<uint32_t>(random.Between(0, 9)));
        if (of_kinds) part.add_kinds(static_cast<uint32_t>(random.Between(0, 2)));
        if (loaded) part.mutable_loads(0)->add_values(static_cast<double>(random.Between(0, 9)));
        for (uint64_t k = itemized ? random.Between(0, 2) : 0; k > 0; --k) {
          part.mutable_items(0)->add_sequences(static_cast<uint32_t>(i));
          part.mutable_items(0)->add_values(static_cast<double>(random.Between(0, 9)));
        }
        if (shares)
          part.add_shared_prefixes(i > 0 ? static_cast<uint32_t>(random.Between(0, 1)) : 0);
        if (says_with) {
          // Of a first sequence it is not read.
          part.add_shared_with(static_cast<uint32_t>(i > 0 ? random.Between(0, i - 1) : 77));
          const bool is_read = part.shared_prefixes(static_cast<int>(i)) > 0;
          expected.mutable_manifest()->add_shared_with(
              is_read ? offsets.back() + part.shared_with(static_cast<int>(i)) : 0);
        }
      }
      expected.mutable_manifest()->mutable_lengths()->MergeFrom(part.lengths());
      expected.mutable_manifest()->mutable_group_ids()->MergeFrom(part.group_ids());
      expected.mutable_manifest()->mutable_ranks()->MergeFrom(part.ranks());
      expected.mutable_manifest()->mutable_ages()->MergeFrom(part.ages());
      expected.mutable_manifest()->mutable_shared_prefixes()->MergeFrom(part.shared_prefixes());
      expected.mutable_manifest()->mutable_kinds()->MergeFrom(part.kinds());
      if (sequences > 0) AppendLoads(part, offsets.back(), *expected.mutable_manifest());
      offsets.push_back(offsets.back() + static_cast<uint32_t>(sequences));
      // What each asks to be told decides neither terms nor request.
      if (asks.Chance(50)) {
        request.set_data_parallel_rank(0);
        request.set_own_slice_only(true);
        request.set_own_part_only(asks.Chance(50));
      }
      request.set_return_request(asks.Chance(50));
      ASSERT_TRUE(ValidateJoin(request).ok()) << ValidateJoin(request);
      const StepPart made = MakePart(std::move(request));
      EXPECT_EQ(made.worker, worker);
      EXPECT_EQ(made.world_size, world_size);
      if (terms.empty()) terms = made.terms;
      ASSERT_EQ(made.terms, terms);
      contents.push_back(made.content);
    }
    const absl::StatusOr<WholeRequest> whole =
        AssembleRequest({.job_id = "job", .step = 7}, terms, contents, kAnyNumber);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->request->SerializeAsString(), expected.SerializeAsString());
    EXPECT_EQ(whole->worker_offsets, offsets);
  }
}

TEST(PartTest, ArraysInSomePartsOnlyAreRefusedByTheWorkersNames) {
  for (const std::string name :
       {"group_ids", "ranks", "ages", "shared_prefixes", "shared_with", "kinds"}) {
    std::vector<StepPart> parts;
    for (uint32_t worker = 0; worker < 4; ++worker) {
      v1::JoinBatchRequest request = Request(worker);
      v1::Manifest& manifest = *request.mutable_request()->mutable_manifest();
      if (worker > 0) manifest.add_lengths(10);
      if (worker > 1) {
        manifest.GetReflection()->AddUInt32(&manifest,
                                            manifest.GetDescriptor()->FindFieldByName(name), 0);
      }
      parts.push_back(MakePart(std::move(request)));
    }
    const absl::Status status =
        AssembleRequest({.job_id = "job", .step = 7}, parts[0].terms,
                        {parts[0].content, parts[1].content, parts[2].content, parts[3].content},
                        kAnyNumber)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("manifest." + name + " has"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("worker 2's part and none in worker 1's"));
  }
}

TEST(PartTest, OtherLoadsAreRefusedByTheirAndTheWorkersNames) {
  const auto error = [](const std::vector<std::string>& first, const std::vector<std::string>& last,
                        bool items) {
    std::vector<StepPart> parts;
    for (uint32_t worker = 0; worker < 3; ++worker) {
      v1::JoinBatchRequest request = Request(worker, 3);
      v1::Manifest& manifest = *request.mutable_request()->mutable_manifest();
      // The one between has no sequences, and none of the loads.
      if (worker != 1) manifest.add_lengths(10);
      for (const std::string& name : worker == 0 ? first : last) {
        if (worker == 1) continue;
        manifest.add_loads()->set_name(name);
        if (items) {
          manifest.add_items()->set_load(name);
        } else {
          manifest.mutable_loads(manifest.loads_size() - 1)->add_values(1);
        }
      }
      // Parts of the same names, which are items in one and numbers in the other.
      if (items && worker == 2) manifest.clear_items();
      parts.push_back(MakePart(std::move(request)));
    }
    const absl::StatusOr<WholeRequest> whole =
        AssembleRequest({.job_id = "job", .step = 7}, parts[0].terms,
                        {parts[0].content, parts[1].content, parts[2].content}, kAnyNumber);
    if (whole.ok()) return std::string();
    EXPECT_EQ(whole.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(whole.status().message());
  };
  EXPECT_EQ(error({"a", "b"}, {"a", "b"}, false), "");
  EXPECT_THAT(error({"a", "b"}, {"a", "c"}, false),
              HasSubstr("request.manifest.loads[1].name is \"b\" in worker 0's part and \"c\" in "
                        "worker 2's; all workers with sequences give the same names"));
  EXPECT_THAT(error({"a", "b"}, {"b", "a"}, false),
              HasSubstr("loads[0].name is \"a\" in worker 0"));
  EXPECT_THAT(error({"a"}, {}, false),
              HasSubstr("loads[0].name is \"a\" in worker 0's part and none in worker 2's"));
  EXPECT_THAT(error({"a"}, {"a"}, true),
              HasSubstr("items[0].load is \"a\" in worker 0's part and none in worker 2's"));
}

TEST(PartTest, TooManyItemsTogetherAreThisServersLimit) {
  v1::JoinBatchRequest request = Request(0, 2);
  v1::Manifest& manifest = *request.mutable_request()->mutable_manifest();
  manifest.add_lengths(7);
  manifest.add_loads()->set_name("patches");
  manifest.add_items()->set_load("patches");
  for (int i = 0; i < 3; ++i) {
    manifest.mutable_items(0)->add_sequences(0);
    manifest.mutable_items(0)->add_values(1);
  }
  const StepPart part = MakePart(request);
  const std::vector<std::string> contents = {part.content, part.content};
  EXPECT_TRUE(AssembleRequest({.job_id = "job"}, part.terms, contents, 6).ok());
  const absl::Status status = AssembleRequest({.job_id = "job"}, part.terms, contents, 5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("6 items, more than the server's max_seq"));
}

// The limit is this server's: it must not become the step's outcome, as InvalidArgument would.
TEST(PartTest, TooManySequencesTogetherAreThisServersLimit) {
  v1::JoinBatchRequest request = Request(0, 2);
  for (uint32_t i = 0; i < 3; ++i) request.mutable_request()->mutable_manifest()->add_lengths(7);
  const StepPart part = MakePart(request);
  const std::vector<std::string> contents = {part.content, part.content};
  const auto sequences = static_cast<uint64_t>(request.request().manifest().lengths_size());
  EXPECT_TRUE(AssembleRequest({.job_id = "job"}, part.terms, contents, 2 * sequences).ok());
  const absl::Status status =
      AssembleRequest({.job_id = "job"}, part.terms, contents, 2 * sequences - 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_sequences"));
}

TEST(PartTest, PartsOfOtherTermsAreNotPutTogether) {
  v1::JoinBatchRequest other = Request(1, 2);
  other.mutable_request()->set_preset("verl");
  const StepPart parts[] = {MakePart(Request(0, 2)), MakePart(other)};
  EXPECT_EQ(AssembleRequest({.job_id = "job", .step = 7}, parts[0].terms,
                            {parts[0].content, parts[1].content}, kAnyNumber)
                .status()
                .code(),
            absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace batchplan
