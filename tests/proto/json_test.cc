#include "proto/batchplan/v1/json.h"

#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <clocale>
#include <map>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& json) {
  v1::PlanBatchRequest request;
  return std::string(FromJson(json, &request).message());
}

TEST(JsonTest, WhatIsWrittenIsRead) {
  v1::PlanBatchRequest request;
  request.set_job_id("a \"quoted\\\" name\n{[");
  for (const uint32_t length : {5, 7}) request.mutable_manifest()->add_lengths(length);
  request.add_passes()->set_name("train");
  request.add_passes();
  for (const auto& json : {ToEditableJson(request), ToCompleteJson(request)}) {
    ASSERT_TRUE(json.ok());
    v1::PlanBatchRequest read;
    const absl::Status status = FromJson(*json, &read);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(read.SerializeAsString(), request.SerializeAsString());
  }
  EXPECT_EQ(ErrorOf(" {\"jobId\" : null, \"manifest\":{\"lengths\":[ ]} } \n"), "");
}

TEST(JsonTest, NumbersHaveAPointWhateverTheLocale) {
  ASSERT_EQ(absl::string_view(std::localeconv()->decimal_point), ",");
  v1::PlanBatchResponse response;
  response.mutable_planning_time()->set_nanos(12'500'000);
  response.mutable_cost_model_used()->set_per_token(1234.5);
  const absl::StatusOr<std::string> json = ToCompleteJson(response);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_THAT(*json, HasSubstr("\"planningTime\":\"0.012500s\""));
  EXPECT_THAT(*json, HasSubstr("\"perToken\":1234.5,"));
  v1::PlanBatchResponse read;
  ASSERT_TRUE(FromJson(*json, &read).ok());
  EXPECT_EQ(read.SerializeAsString(), response.SerializeAsString());
  EXPECT_FALSE(FromJson(R"({"planningTime": "0,0125s"})", &read).ok());
  // The caller's locale is still set.
  EXPECT_EQ(absl::string_view(std::localeconv()->decimal_point), ",");
}

TEST(JsonTest, ANullInAListIsRefusedByPlace) {
  EXPECT_EQ(ErrorOf(R"({"manifest": {"lengths": [5, null, 7]}})"),
            "manifest.lengths[1] is null; a list has no nulls");
  EXPECT_EQ(ErrorOf(R"({"passes": [{"name": "a"}, null]})"),
            "passes[1] is null; a list has no nulls");
}

TEST(JsonTest, AFieldThatIsGivenTwiceIsRefusedByPlace) {
  EXPECT_EQ(ErrorOf(R"({"manifest": {"lengths": [5]}, "manifest": {"lengths": [6]}})"),
            "manifest is given twice");
  EXPECT_EQ(ErrorOf(R"({"passes": [{}, {"name": "a", "maxTokensPerMicrobatch": 1,
                                        "max_tokens_per_microbatch": 2}]})"),
            "passes[1].max_tokens_per_microbatch is given twice");
  EXPECT_THAT(ErrorOf(R"({"jobId": "a", "job\u0049d": "b"})"), HasSubstr("a name with an escape"));
  // One name in different objects.
  EXPECT_EQ(ErrorOf(R"({"passes": [{"name": "a"}, {"name": "b"}]})"), "");
}

TEST(JsonTest, UnknownFieldsAreRefusedByName) {
  EXPECT_THAT(ErrorOf(R"({"manifest": {"length": [5]}})"), HasSubstr("length"));
}

TEST(JsonTest, WhatIsNoJsonIsRefused) {
  for (const char* text : {"",
                           "{",
                           "}",
                           "[1",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "{\"a\":1}}",
                           "{\"a\":[1,]}",
                           "{\"a\":[1}",
                           "{\"a\":]",
                           "\"",
                           "\"\\",
                           "{\"a\" 1}",
                           "[1 2]",
                           "nul",
                           "{\"a\":nothing}",
                           "{} {}"}) {
    EXPECT_FALSE(CheckStrictJson(text).ok()) << text;
  }
  EXPECT_FALSE(CheckStrictJson(std::string("{}\0", 3)).ok());
  EXPECT_EQ(CheckStrictJson("{\"a\": [1, x]}").message(), "no JSON at byte 10, in a[1]");
}

TEST(JsonTest, DepthIsBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  EXPECT_TRUE(CheckStrictJson(nested(kMaxJsonDepth)).ok());
  EXPECT_THAT(std::string(CheckStrictJson(nested(kMaxJsonDepth + 1)).message()),
              HasSubstr("more than 100 levels deep"));
  EXPECT_FALSE(CheckStrictJson(std::string(1'000'000, '[')).ok());
}

TEST(JsonTest, AnyBytesEndInAnAnswer) {
  const std::string pieces[] = {"{",     "}",    "[", "]",  ",",  ":", "\"a\"",
                                "\"b\"", "null", "1", "\\", "\"", " ", "\xff"};
  std::mt19937 random(7);
  int fine = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string text;
    for (size_t j = random() % 12; j > 0; --j) text += pieces[random() % std::size(pieces)];
    fine += CheckStrictJson(text).ok() ? 1 : 0;
  }
  EXPECT_GT(fine, 100);
}

TEST(JsonTest, OtherPeoplesObjectsMayHoldAnything) {
  google::protobuf::Struct object;
  EXPECT_TRUE(FromJson(R"({"tags": [null], "Tags": 1, "t_ags": {"a": [[null]]}})", &object).ok());
}

TEST(JsonTest, NumbersReadBackAsTheyWere) {
  EXPECT_EQ(JsonNumber(0.1), "0.1");
  EXPECT_EQ(JsonNumber(64), "64");
  EXPECT_EQ(JsonNumber(1.0 / 0.0), "null");
  EXPECT_EQ(JsonString("a\"\n"), "\"a\\\"\\n\"");
}

}  // namespace
}  // namespace batchplan
