#include "server/rendezvous/terms.h"

#include <gtest/gtest.h>

#include <string>

#include "server/rendezvous/part.h"

namespace batchplan {
namespace {

v1::JoinBatchRequest Request() {
  v1::JoinBatchRequest request;
  request.set_worker(1);
  request.set_world_size(4);
  v1::PlanBatchRequest& plan = *request.mutable_request();
  plan.set_job_id("job");
  plan.set_step(7);
  plan.set_preset("verl");
  plan.mutable_manifest()->add_lengths(100);
  plan.mutable_topology()->set_data_parallel(2);
  v1::Pass& pass = *plan.add_passes();
  pass.set_max_tokens_per_microbatch(8192);
  pass.mutable_packed()->add_buckets(1024);
  return request;
}

TEST(TermsTest, WhatIsAWorkersOwnIsNoTerm) {
  const std::string terms = SerializeTerms(Request());
  v1::JoinBatchRequest other = Request();
  other.set_worker(3);
  other.set_data_parallel_rank(1);
  other.set_own_slice_only(true);
  other.set_own_part_only(true);
  other.set_return_request(true);
  other.mutable_timeout()->set_seconds(3);
  other.mutable_request()->set_job_id("other");
  other.mutable_request()->set_step(8);
  other.mutable_request()->set_request_id("r-1");
  other.mutable_request()->mutable_manifest()->add_lengths(5);
  other.mutable_request()->mutable_manifest()->add_group_ids(5);
  other.mutable_request()->mutable_manifest()->add_ranks(0);
  other.mutable_request()->mutable_manifest()->add_ages(0);
  other.mutable_request()->mutable_manifest()->add_shared_prefixes(0);
  other.mutable_request()->mutable_manifest()->add_shared_with(0);
  other.mutable_request()->mutable_manifest()->add_kinds(1);
  other.mutable_request()->mutable_manifest()->add_loads()->set_name("patches");
  other.mutable_request()->mutable_manifest()->add_items()->set_load("patches");
  EXPECT_EQ(SerializeTerms(other), terms);
  // Also where a worker without sequences has no manifest at all.
  other.mutable_request()->clear_manifest();
  EXPECT_EQ(SerializeTerms(other), terms);
}

// Every field of the request, by reflection, so that one that is added later is tested too.
TEST(TermsTest, EveryOtherFieldIsATermAndIsFoundByItsName) {
  const auto* descriptor = v1::PlanBatchRequest::descriptor();
  const std::string terms = SerializeTerms(Request());
  int fields = 0;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor->field(i);
    const std::string name = field->name();
    if (name == "job_id" || name == "step" || name == "request_id" || name == "manifest") continue;
    ++fields;
    v1::JoinBatchRequest other = Request();
    const auto* reflection = other.mutable_request()->GetReflection();
    if (field->is_repeated() ? reflection->FieldSize(other.request(), field) > 0
                             : reflection->HasField(other.request(), field)) {
      reflection->ClearField(other.mutable_request(), field);
    } else {
      switch (field->cpp_type()) {
        case google::protobuf::FieldDescriptor::CPPTYPE_BOOL:
          reflection->SetBool(other.mutable_request(), field, true);
          break;
        case google::protobuf::FieldDescriptor::CPPTYPE_ENUM:
          reflection->SetEnumValue(other.mutable_request(), field, 1);
          break;
        case google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE:
          reflection->MutableMessage(other.mutable_request(), field);
          break;
        default:
          FAIL() << "teach this test the type of " << name;
      }
    }
    ASSERT_NE(SerializeTerms(other), terms) << name;
    const TermsDifference difference = FirstDifference(terms, SerializeTerms(other));
    EXPECT_EQ(difference.field.substr(0, name.size() + 8), "request." + name);
    EXPECT_NE(difference.first, difference.second);
  }
  EXPECT_GE(fields, 9);
}

struct Case {
  const char* field;
  const char* first;
  const char* second;
  void (*change)(v1::JoinBatchRequest&);
};

TEST(TermsTest, TheFirstDifferenceHasItsPathAndBothValues) {
  const Case cases[] = {
      {"world_size", "4", "5", [](v1::JoinBatchRequest& r) { r.set_world_size(5); }},
      {"request.preset", "\"verl\"", "\"\"",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->clear_preset(); }},
      {"request.manifest.pad_to", "0", "9",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->mutable_manifest()->set_pad_to(9); }},
      {"request.topology.data_parallel", "2", "0",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->clear_topology(); }},
      {"request.effort", "EFFORT_UNSPECIFIED", "EFFORT_FAST",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->set_effort(v1::EFFORT_FAST); }},
      {"request.cost_model.per_token", "0", "0.5",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_cost_model()->set_per_token(.5);
       }},
      {"request.cost_model.exchange", "0 entries", "1 entries",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_cost_model()->add_exchange()->set_per_token(.02);
       }},
      {"request.cost_model", "unset", "set",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->mutable_cost_model(); }},
      {"request.passes[0].max_tokens_per_microbatch", "8192", "4096",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_passes(0)->set_max_tokens_per_microbatch(4096);
       }},
      {"request.passes[0].length_multiple", "unset", "0",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_passes(0)->set_length_multiple(0);
       }},
      {"request.passes[0].packed.buckets[0]", "1024", "512",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_passes(0)->mutable_packed()->set_buckets(0, 512);
       }},
      {"request.pipeline.transfer", "0", "0.5",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->mutable_pipeline()->set_transfer(.5); }},
      {"request.pipeline.stage_shares", "0 entries", "1 entries",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_pipeline()->add_stage_shares(1);
       }},
      {"request.pipeline", "unset", "set",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->mutable_pipeline(); }},
      {"request.passes[0].forward_only", "false", "true",
       [](v1::JoinBatchRequest& r) {
         r.mutable_request()->mutable_passes(0)->set_forward_only(true);
       }},
      {"request.passes", "1 entries", "2 entries",
       [](v1::JoinBatchRequest& r) { r.mutable_request()->add_passes(); }},
  };
  const std::string terms = SerializeTerms(Request());
  for (const Case& c : cases) {
    v1::JoinBatchRequest other = Request();
    c.change(other);
    const TermsDifference difference = FirstDifference(terms, SerializeTerms(other));
    EXPECT_EQ(difference.field, c.field);
    EXPECT_EQ(difference.first, c.first);
    EXPECT_EQ(difference.second, c.second);
    EXPECT_NE(TermsDigest(terms), TermsDigest(SerializeTerms(other)));
  }
}

// Replicas of all versions compare them.
TEST(TermsTest, TheDigestIsTheSameForEver) {
  EXPECT_EQ(TermsDigest(""), 0xcbf29ce484222325);
  EXPECT_EQ(TermsDigest("foobar"), 0x85944171f73967e8);
}

TEST(TermsTest, LongValuesAreShortened) {
  v1::JoinBatchRequest other = Request();
  other.mutable_request()->set_preset(std::string(5000, 'x'));
  EXPECT_LT(FirstDifference(SerializeTerms(Request()), SerializeTerms(other)).second.size(), 100);
}

TEST(TermsTest, OptionsOfALaterVersionAreTermsToo) {
  v1::JoinBatchRequest later = Request();
  later.mutable_request()
      ->GetReflection()
      ->MutableUnknownFields(later.mutable_request())
      ->AddVarint(1000, 1);
  const std::string terms = SerializeTerms(Request());
  EXPECT_NE(SerializeTerms(later), terms);
  EXPECT_EQ(FirstDifference(terms, SerializeTerms(later)).field, "request");
}

}  // namespace
}  // namespace batchplan
