// What admission needs to know of a request before it is parsed.
//
//   const RequestOutline outline = OutlinePlanBatch(bytes);
//   outline.job_id, outline.sequences, ...
//
// One pass over the wire format of the message, in place: arrays are counted without being decoded,
// at gigabytes a second, so that gRPC's own threads can afford it, and only the ids and a few bytes
// for each pass are allocated. A message that does not parse is outlined as far as it goes, and
// refused later when it is parsed; the outline of any other message says exactly what the parsed
// message says.

#ifndef BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_OUTLINE_H_
#define BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_OUTLINE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan {

// The first bytes of a string in a request, and the number of all.
struct OutlinedString {
  static constexpr size_t kMaxKeptBytes = 256;

  // At most kMaxKeptBytes; any bytes, as they came.
  std::string text;
  uint64_t bytes = 0;
};

// The fields of a pass that ask for micro-batches, as on the wire.
struct OutlinedPass {
  uint32_t min_microbatches = 0;
  uint32_t microbatch_count_multiple = 0;
  bool ignore_mini_batches = false;

  bool operator==(const OutlinedPass&) const = default;
};

struct RequestOutline {
  OutlinedString job_id;
  OutlinedString request_id;
  uint64_t step = 0;
  // The numbers of manifest.lengths and of passes.
  uint64_t sequences = 0;
  uint64_t passes = 0;
  // Whether manifest.shared_prefixes has entries.
  bool shared_prefixes = false;
  // The numbers of values in manifest.loads and in manifest.items.
  uint64_t load_values = 0;
  uint64_t items = 0;
  // The fields that decide how much work a plan is, by their names, as on the wire; of passes, the
  // first kMaxPasses.
  uint32_t data_parallel = 0;
  uint32_t pipeline_parallel = 0;
  uint32_t virtual_pipeline = 0;
  uint32_t group_size = 0;  // of the pipeline
  uint32_t context_parallel = 0;
  // Whether dynamic_context is set, and its sizes.
  bool dynamic_context = false;
  uint32_t min_size = 0;
  uint32_t max_size = 0;
  uint32_t mini_batch_size = 0;
  uint32_t effort = 0;
  uint32_t overlong = 0;
  bool allow_empty_microbatches = false;
  // Whether it is set.
  bool selection = false;
  std::vector<OutlinedPass> pass_options;
  // The micro-batches of a ReportStepRequest.
  uint64_t microbatches = 0;
  // Of the whole message.
  uint64_t message_bytes = 0;
};

RequestOutline OutlinePlanBatch(const grpc::ByteBuffer& bytes);

// The outline of a parsed request, without step and message_bytes.
RequestOutline OutlineOf(const v1::PlanBatchRequest& request);

// The outline of the PlanBatchRequest inside a JoinBatchRequest.
RequestOutline OutlineJoinBatch(const grpc::ByteBuffer& bytes);

// A ReportStepRequest has neither request_id nor sequences nor passes.
RequestOutline OutlineReportStep(const grpc::ByteBuffer& bytes);

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ADMISSION_REQUEST_OUTLINE_H_
