#include "client/cli/commands/whole_request.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace batchplan::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Message>
Message FromJson(const std::string& json) {
  Message message;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &message).ok()) << json;
  return message;
}

// The second of three workers, of one, two and no sequences.
v1::JoinBatchRequest Own() {
  return FromJson<v1::JoinBatchRequest>(R"({"worker": 1, "request": {"job_id": "rl", "manifest": {
      "lengths": [20, 30], "group_ids": [5, 6], "kinds": [1, 0], "pad_to": 64,
      "loads": [{"name": "patches", "values": [2, 3]}],
      "items": [{"load": "images", "sequences": [0, 1, 1], "values": [7, 8, 9]}]}}})");
}

v1::JoinBatchResponse Answer() {
  return FromJson<v1::JoinBatchResponse>(
      R"({"worker_offsets": [0, 1, 3, 3], "request": {"manifest": {
      "lengths": [10, 20, 30], "group_ids": [5, 5, 6], "kinds": [0, 1, 0],
      "loads": [{"name": "patches", "values": [1, 2, 3]}],
      "items": [{"load": "images", "sequences": [0, 1, 2, 2], "values": [6, 7, 8, 9]}]}}})");
}

TEST(WholeRequest, HasTheSequencesOfAllWorkers) {
  const auto whole = WholeRequest(Own(), Answer());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->manifest().lengths(), ElementsAre(10, 20, 30));
  EXPECT_THAT(whole->manifest().loads(0).values(), ElementsAre(1, 2, 3));
  EXPECT_EQ(whole->manifest().pad_to(), 64);
  EXPECT_EQ(whole->job_id(), "rl");
}

TEST(WholeRequest, AWorkerWithoutSequencesHasThoseOfTheOthers) {
  v1::JoinBatchRequest own;
  own.set_worker(2);
  const auto whole = WholeRequest(own, Answer());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->manifest().lengths(), ElementsAre(10, 20, 30));
}

TEST(WholeRequest, NamesWhatIsNotAsTheWorkerSentIt) {
  const auto own = [&](auto change) {
    v1::JoinBatchRequest request = Own();
    change(*request.mutable_request()->mutable_manifest());
    return std::string(WholeRequest(request, Answer()).status().message());
  };
  using Manifest = v1::Manifest;
  EXPECT_THAT(own([](Manifest& m) { m.set_lengths(1, 31); }),
              HasSubstr("other lengths than worker 1"));
  EXPECT_THAT(own([](Manifest& m) { m.clear_lengths(); }), HasSubstr("other lengths"));
  EXPECT_THAT(own([](Manifest& m) { m.clear_group_ids(); }), HasSubstr("other group_ids"));
  EXPECT_THAT(own([](Manifest& m) { m.add_ages(3); }), HasSubstr("other ages"));
  EXPECT_THAT(own([](Manifest& m) { m.set_kinds(0, 0); }), HasSubstr("other kinds"));
  EXPECT_THAT(own([](Manifest& m) { m.mutable_loads(0)->set_values(1, 4); }),
              HasSubstr("other loads of patches"));
  EXPECT_THAT(own([](Manifest& m) { m.mutable_loads(0)->set_name("frames"); }),
              HasSubstr("other loads of frames"));
  EXPECT_THAT(own([](Manifest& m) { m.mutable_items(0)->set_sequences(1, 0); }),
              HasSubstr("other items of images"));
  EXPECT_THAT(own([](Manifest& m) { m.mutable_items(0)->set_values(2, 1); }),
              HasSubstr("other items of images"));
}

TEST(WholeRequest, OffsetsThatAreNotTheWorkersAreRefused) {
  for (const char* offsets : {"[]", "[0]", "[0, 1]", "[0, 3, 1, 3]", "[1, 1, 3]", "[0, 1, 2]"}) {
    v1::JoinBatchResponse answer = Answer();
    answer.clear_worker_offsets();
    answer.MergeFrom(
        FromJson<v1::JoinBatchResponse>(std::string(R"({"worker_offsets": )") + offsets + "}"));
    const auto whole = WholeRequest(Own(), answer);
    EXPECT_EQ(whole.status().code(), absl::StatusCode::kInvalidArgument) << offsets;
    EXPECT_THAT(std::string(whole.status().message()), HasSubstr("worker_offsets")) << offsets;
  }
  v1::JoinBatchResponse answer = Answer();
  answer.clear_request();
  EXPECT_THAT(std::string(WholeRequest(Own(), answer).status().message()),
              HasSubstr("has no request"));
}

}  // namespace
}  // namespace batchplan::cli
