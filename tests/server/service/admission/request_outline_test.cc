#include "server/service/admission/request_outline.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"
#include "tests/support/generators.h"
#include "tests/support/wire_request.h"

namespace batchplan {
namespace {

using testing::Cases;
using testing::RandomStream;
using testing::Seeds;

// `bytes` in slices of random sizes, as a network may deliver them.
grpc::ByteBuffer Sliced(const std::string& bytes, RandomStream& random) {
  std::vector<grpc::Slice> slices;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t size =
        random.Between(1, std::min<size_t>(bytes.size() - begin, random.Chance(20) ? 3 : 200));
    slices.emplace_back(bytes.substr(begin, size));
    begin += size;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string RandomId(RandomStream& random) {
  return std::string(random.Between(0, random.Chance(10) ? 700 : 20),
                     static_cast<char>(random.Between('a', 'z')));
}

v1::PlanBatchRequest RandomRequest(uint64_t seed, RandomStream& random) {
  v1::PlanBatchRequest request = testing::WireRequest(testing::GenerateRequest(seed));
  request.set_job_id(RandomId(random));
  request.set_request_id(RandomId(random));
  request.set_step(random.Between(0, 1) * random.Between(0, UINT64_MAX));
  request.mutable_topology()->set_virtual_pipeline(
      static_cast<uint32_t>(random.Between(0, UINT32_MAX)));
  if (random.Chance(30)) {
    request.mutable_topology()->mutable_dynamic_context()->set_min_size(
        static_cast<uint32_t>(random.Between(0, 1) * random.Between(0, UINT32_MAX)));
  }
  request.set_effort(static_cast<v1::Effort>(random.Between(0, 1) * random.Between(0, INT32_MAX)));
  request.set_allow_empty_microbatches(random.Chance(50));
  if (random.Chance(20)) request.mutable_manifest()->add_shared_prefixes(0);
  for (uint64_t loads = random.Between(0, 2); loads > 0; --loads) {
    v1::Load* load = request.mutable_manifest()->add_loads();
    load->set_name(RandomId(random));
    v1::LoadItems* items = request.mutable_manifest()->add_items();
    items->set_load(RandomId(random));
    for (uint64_t i = random.Between(0, 9); i > 0; --i) {
      load->add_values(static_cast<double>(i));
      items->add_values(static_cast<double>(i));
      items->add_sequences(static_cast<uint32_t>(i));
    }
  }
  for (v1::Pass& pass : *request.mutable_passes()) {
    if (random.Chance(50)) {
      pass.set_min_microbatches(static_cast<uint32_t>(random.Between(0, UINT32_MAX)));
    }
    if (random.Chance(50)) {
      pass.set_microbatch_count_multiple(static_cast<uint32_t>(random.Between(0, 300)));
    }
  }
  for (uint32_t& length : *request.mutable_manifest()->mutable_lengths()) {
    length >>= random.Between(0, 31);  // varints of every size
    if (random.Chance(5)) length = UINT32_MAX;
  }
  return request;
}

// manifest.lengths field by field, as another writer may send it.
std::string Unpacked(const std::vector<uint32_t>& lengths) {
  std::string manifest;
  for (const uint32_t length : lengths) {
    v1::MiniBatching varint;  // its field 1 is a varint like an unpacked length
    varint.set_size(length);
    manifest += length == 0 ? std::string("\x08\x00", 2) : varint.SerializeAsString();
  }
  std::string bytes = "\x2a";  // PlanBatchRequest.manifest, and its size
  for (size_t size = manifest.size(); true; size >>= 7) {
    bytes.push_back(static_cast<char>((size & 0x7f) | (size > 0x7f ? 0x80 : 0)));
    if (size <= 0x7f) break;
  }
  return bytes + manifest;
}

// `bytes` after a few random edits.
std::string Mutated(std::string bytes, RandomStream& random) {
  for (uint64_t edits = random.Between(0, random.Between(1, 4)); edits > 0 && !bytes.empty();
       --edits) {
    const size_t at = random.Between(0, bytes.size() - 1);
    switch (random.Between(0, 3)) {
      case 0:
        bytes[at] = static_cast<char>(random.Between(0, 255));
        break;
      case 1:
        bytes.erase(at, random.Between(1, 8));
        break;
      case 2:
        bytes.insert(at, 1, static_cast<char>(random.Between(0, 255)));
        break;
      default:
        bytes += bytes.substr(at);  // fields once more
        break;
    }
  }
  return bytes;
}

void ExpectString(const OutlinedString& outlined, const std::string& parsed) {
  EXPECT_EQ(outlined.bytes, parsed.size());
  EXPECT_EQ(outlined.text, parsed.substr(0, OutlinedString::kMaxKeptBytes));
}

void ExpectSame(const RequestOutline& outline, const v1::PlanBatchRequest& request) {
  ExpectString(outline.job_id, request.job_id());
  ExpectString(outline.request_id, request.request_id());
  EXPECT_EQ(outline.step, request.step());
  EXPECT_EQ(outline.sequences, static_cast<uint64_t>(request.manifest().lengths_size()));
  EXPECT_EQ(outline.passes, static_cast<uint64_t>(request.passes_size()));
  const RequestOutline same = OutlineOf(request);
  ExpectString(same.job_id, request.job_id());
  EXPECT_EQ(same.sequences, outline.sequences);
  EXPECT_EQ(same.passes, outline.passes);
  EXPECT_EQ(outline.shared_prefixes, same.shared_prefixes);
  EXPECT_EQ(outline.load_values, same.load_values);
  EXPECT_EQ(outline.items, same.items);
  EXPECT_EQ(outline.data_parallel, same.data_parallel);
  EXPECT_EQ(outline.pipeline_parallel, same.pipeline_parallel);
  EXPECT_EQ(outline.virtual_pipeline, same.virtual_pipeline);
  EXPECT_EQ(outline.context_parallel, same.context_parallel);
  EXPECT_EQ(outline.dynamic_context, same.dynamic_context);
  EXPECT_EQ(outline.min_size, same.min_size);
  EXPECT_EQ(outline.max_size, same.max_size);
  EXPECT_EQ(outline.group_size, same.group_size);
  EXPECT_EQ(outline.mini_batch_size, same.mini_batch_size);
  EXPECT_EQ(outline.effort, same.effort);
  EXPECT_EQ(outline.overlong, same.overlong);
  EXPECT_EQ(outline.allow_empty_microbatches, same.allow_empty_microbatches);
  EXPECT_EQ(outline.pass_options, same.pass_options);
}

// Mutated strings are often not UTF-8, which protobuf would report each time.
class RequestOutlineTest : public ::testing::Test {
 protected:
  google::protobuf::LogSilencer silencer_;
};

TEST_F(RequestOutlineTest, SaysWhatTheParsedMessageSays) {
  RandomStream random(1);
  uint64_t parsed = 0;
  // At least this many, so that the share of parsable messages does not depend on chance.
  const uint64_t cases = std::max<uint64_t>(1000, Cases(1000));
  for (uint64_t seed = testing::Seed(0); seed < testing::Seed(0) + cases; ++seed) {
    SCOPED_TRACE(seed);
    std::string bytes = RandomRequest(seed, random).SerializeAsString();
    // Concatenated messages are merged.
    if (random.Chance(20)) bytes += RandomRequest(seed + 1, random).SerializeAsString();
    if (random.Chance(20)) bytes += Unpacked({0, 1, 127, 128, UINT32_MAX});
    bytes = Mutated(std::move(bytes), random);
    const RequestOutline outline = OutlinePlanBatch(Sliced(bytes, random));
    EXPECT_EQ(outline.message_bytes, bytes.size());
    v1::PlanBatchRequest request;
    if (!request.ParseFromString(bytes)) continue;
    ++parsed;
    ExpectSame(outline, request);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(parsed, cases / 4);
  EXPECT_LT(parsed, cases);
}

TEST_F(RequestOutlineTest, OfAPartItIsThatOfTheRequestInside) {
  RandomStream random(2);
  uint64_t parsed = 0;
  // At least this many, so that the share of parsable messages does not depend on chance.
  const uint64_t cases = std::max<uint64_t>(500, Cases(500));
  for (uint64_t seed = testing::Seed(0); seed < testing::Seed(0) + cases; ++seed) {
    SCOPED_TRACE(seed);
    v1::JoinBatchRequest part;
    *part.mutable_request() = RandomRequest(seed, random);
    part.set_worker(3);
    part.set_world_size(8);
    part.mutable_timeout()->set_seconds(10);
    std::string bytes = part.SerializeAsString();
    if (random.Chance(20)) bytes += bytes;
    bytes = Mutated(std::move(bytes), random);
    const RequestOutline outline = OutlineJoinBatch(Sliced(bytes, random));
    if (!part.ParseFromString(bytes)) continue;
    ++parsed;
    ExpectSame(outline, part.request());
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(parsed, cases / 4);
}

TEST_F(RequestOutlineTest, OfAReportItIsJobAndStep) {
  RandomStream random(3);
  for (const uint64_t seed : Seeds(200)) {
    SCOPED_TRACE(seed);
    v1::ReportStepRequest report;
    report.set_job_id(RandomId(random));
    report.set_step(random.Between(0, UINT64_MAX));
    report.add_microbatches()->set_tokens(5);
    const std::string bytes = Mutated(report.SerializeAsString(), random);
    const RequestOutline outline = OutlineReportStep(Sliced(bytes, random));
    if (!report.ParseFromString(bytes)) continue;
    ExpectString(outline.job_id, report.job_id());
    EXPECT_EQ(outline.step, report.step());
    EXPECT_EQ(outline.sequences, 0U);
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(RequestOutlineTest, OfBytesThatAreCutShortItIsWhatCameBefore) {
  v1::PlanBatchRequest request;
  request.set_job_id("job");
  request.set_step(7);
  request.set_request_id("id");
  for (int i = 0; i < 100; ++i) request.mutable_manifest()->add_lengths(5);
  std::string bytes = request.SerializeAsString();
  bytes.resize(bytes.size() - 40);
  RandomStream random(4);
  const RequestOutline outline = OutlinePlanBatch(Sliced(bytes, random));
  EXPECT_EQ(outline.job_id.text, "job");
  EXPECT_EQ(outline.step, 7U);
  EXPECT_EQ(outline.request_id.text, "id");
  EXPECT_EQ(outline.sequences, 60U);
}

TEST_F(RequestOutlineTest, OfNoBytesItIsEmpty) {
  const RequestOutline outline = OutlinePlanBatch(grpc::ByteBuffer(nullptr, 0));
  EXPECT_EQ(outline.job_id.bytes, 0U);
  EXPECT_EQ(outline.sequences, 0U);
  EXPECT_EQ(outline.message_bytes, 0U);
}

}  // namespace
}  // namespace batchplan
