#include "server/service/admission/request_outline.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstring>

#include "server/planner/request/options.h"

namespace batchplan {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;

constexpr uint32_t DelimitedTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

constexpr uint32_t VarintTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT);
}

constexpr uint32_t DoubleTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_FIXED64);
}

// Counts the bytes below 0x80, each of which ends a varint.
uint64_t CountVarintEnds(const uint8_t* data, size_t size) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  uint64_t count = 0;
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= size; i += sizeof(uint64_t)) {
    uint64_t eight = 0;
    std::memcpy(&eight, data + i, sizeof(eight));
    // Sets a bit for each byte below 0x80; the highest byte of the product is their sum.
    count += (((~eight >> 7) & kOnes) * kOnes) >> 56;
  }
  for (; i < size; ++i) count += data[i] < 0x80 ? 1 : 0;
  return count;
}

// Reads the fields of a message up to its end, which is the stream's or the limit's. `field` reads
// or skips the field with a tag; it returns false if it can't.
template <typename Field>
bool ReadFields(CodedInputStream& in, const Field& field) {
  while (const uint32_t tag = in.ReadTag()) {
    if (!field(tag)) return false;
  }
  return in.ConsumedEntireMessage();
}

// Reads a message inside another.
template <typename Field>
bool ReadMessage(CodedInputStream& in, const Field& field) {
  int size = 0;
  if (!in.ReadVarintSizeAsInt(&size)) return false;
  const CodedInputStream::Limit outer = in.PushLimit(size);
  if (!ReadFields(in, field)) return false;
  in.PopLimit(outer);
  return true;
}

bool ReadString(CodedInputStream& in, OutlinedString* string) {
  int size = 0;
  if (!in.ReadVarintSizeAsInt(&size)) return false;
  string->bytes = static_cast<uint64_t>(size);
  const int kept = std::min(size, static_cast<int>(OutlinedString::kMaxKeptBytes));
  return in.ReadString(&string->text, kept) && in.Skip(size - kept);
}

bool CountPackedVarints(CodedInputStream& in, uint64_t* count) {
  int size = 0;
  if (!in.ReadVarintSizeAsInt(&size)) return false;
  const CodedInputStream::Limit outer = in.PushLimit(size);
  const void* data = nullptr;
  for (int part = 0; size > 0; size -= part) {
    if (!in.GetDirectBufferPointer(&data, &part)) return false;
    *count += CountVarintEnds(static_cast<const uint8_t*>(data), static_cast<size_t>(part));
    if (!in.Skip(part)) return false;
  }
  in.PopLimit(outer);
  return true;
}

bool CountVarint(CodedInputStream& in, uint64_t* count) {
  uint64_t value = 0;
  if (!in.ReadVarint64(&value)) return false;
  ++*count;
  return true;
}

// Counts doubles. The parser refuses a packed field whose size is no multiple of a double's.
bool CountPackedDoubles(CodedInputStream& in, uint64_t* count) {
  int size = 0;
  if (!in.ReadVarintSizeAsInt(&size)) return false;
  *count += static_cast<uint64_t>(size) / sizeof(double);
  return in.Skip(size);
}

bool CountDouble(CodedInputStream& in, uint64_t* count) {
  ++*count;
  return in.Skip(sizeof(double));
}

// Reads a message that has doubles in field `field`.
bool ReadDoubles(CodedInputStream& in, int field, uint64_t* count) {
  return ReadMessage(in, [&](uint32_t tag) {
    if (tag == DelimitedTag(field)) return CountPackedDoubles(in, count);
    if (tag == DoubleTag(field)) return CountDouble(in, count);
    return WireFormatLite::SkipField(&in, tag);
  });
}

// Reads a varint; like the parser, keeps its low 32 bits.
bool ReadNumber(CodedInputStream& in, uint32_t* number) {
  uint64_t value = 0;
  if (!in.ReadVarint64(&value)) return false;
  *number = static_cast<uint32_t>(value);
  return true;
}

bool ReadBool(CodedInputStream& in, bool* value) {
  uint64_t number = 0;
  if (!in.ReadVarint64(&number)) return false;
  *value = number != 0;
  return true;
}

// The parser merges repeated occurrences of a message field; so the counts go on.
bool ReadManifest(CodedInputStream& in, RequestOutline* outline) {
  uint64_t prefixes = 0;
  const bool read = ReadMessage(in, [&](uint32_t tag) {
    switch (tag) {
      case DelimitedTag(v1::Manifest::kLengthsFieldNumber):
        return CountPackedVarints(in, &outline->sequences);
      case VarintTag(v1::Manifest::kLengthsFieldNumber):
        return CountVarint(in, &outline->sequences);
      case DelimitedTag(v1::Manifest::kSharedPrefixesFieldNumber):
        return CountPackedVarints(in, &prefixes);
      case VarintTag(v1::Manifest::kSharedPrefixesFieldNumber):
        return CountVarint(in, &prefixes);
      case DelimitedTag(v1::Manifest::kLoadsFieldNumber):
        return ReadDoubles(in, v1::Load::kValuesFieldNumber, &outline->load_values);
      case DelimitedTag(v1::Manifest::kItemsFieldNumber):
        return ReadDoubles(in, v1::LoadItems::kValuesFieldNumber, &outline->items);
      default:
        return WireFormatLite::SkipField(&in, tag);
    }
  });
  if (prefixes > 0) outline->shared_prefixes = true;
  return read;
}

bool ReadDynamicContext(CodedInputStream& in, RequestOutline* outline) {
  outline->dynamic_context = true;
  return ReadMessage(in, [&](uint32_t tag) {
    switch (tag) {
      case VarintTag(v1::DynamicContext::kMinSizeFieldNumber):
        return ReadNumber(in, &outline->min_size);
      case VarintTag(v1::DynamicContext::kMaxSizeFieldNumber):
        return ReadNumber(in, &outline->max_size);
      default:
        return WireFormatLite::SkipField(&in, tag);
    }
  });
}

bool ReadTopology(CodedInputStream& in, RequestOutline* outline) {
  return ReadMessage(in, [&](uint32_t tag) {
    switch (tag) {
      case VarintTag(v1::Topology::kDataParallelFieldNumber):
        return ReadNumber(in, &outline->data_parallel);
      case VarintTag(v1::Topology::kPipelineParallelFieldNumber):
        return ReadNumber(in, &outline->pipeline_parallel);
      case VarintTag(v1::Topology::kVirtualPipelineFieldNumber):
        return ReadNumber(in, &outline->virtual_pipeline);
      case DelimitedTag(v1::Topology::kDynamicContextFieldNumber):
        return ReadDynamicContext(in, outline);
      case VarintTag(v1::Topology::kContextParallelFieldNumber):
        return ReadNumber(in, &outline->context_parallel);
      default:
        return WireFormatLite::SkipField(&in, tag);
    }
  });
}

bool ReadPipeline(CodedInputStream& in, RequestOutline* outline) {
  return ReadMessage(in, [&](uint32_t tag) {
    if (tag != VarintTag(v1::Pipeline::kGroupSizeFieldNumber)) {
      return WireFormatLite::SkipField(&in, tag);
    }
    return ReadNumber(in, &outline->group_size);
  });
}

bool ReadMiniBatches(CodedInputStream& in, RequestOutline* outline) {
  return ReadMessage(in, [&](uint32_t tag) {
    if (tag != VarintTag(v1::MiniBatching::kSizeFieldNumber)) {
      return WireFormatLite::SkipField(&in, tag);
    }
    return ReadNumber(in, &outline->mini_batch_size);
  });
}

bool ReadPass(CodedInputStream& in, RequestOutline* outline) {
  ++outline->passes;
  OutlinedPass pass;
  const bool read = ReadMessage(in, [&](uint32_t tag) {
    switch (tag) {
      case VarintTag(v1::Pass::kMinMicrobatchesFieldNumber):
        return ReadNumber(in, &pass.min_microbatches);
      case VarintTag(v1::Pass::kMicrobatchCountMultipleFieldNumber):
        return ReadNumber(in, &pass.microbatch_count_multiple);
      case VarintTag(v1::Pass::kIgnoreMiniBatchesFieldNumber):
        return ReadBool(in, &pass.ignore_mini_batches);
      default:
        return WireFormatLite::SkipField(&in, tag);
    }
  });
  if (outline->pass_options.size() < kMaxPasses) outline->pass_options.push_back(pass);
  return read;
}

bool ReadRequestField(CodedInputStream& in, uint32_t tag, RequestOutline* outline) {
  switch (tag) {
    case DelimitedTag(v1::PlanBatchRequest::kJobIdFieldNumber):
      return ReadString(in, &outline->job_id);
    case VarintTag(v1::PlanBatchRequest::kStepFieldNumber):
      return in.ReadVarint64(&outline->step);
    case DelimitedTag(v1::PlanBatchRequest::kRequestIdFieldNumber):
      return ReadString(in, &outline->request_id);
    case DelimitedTag(v1::PlanBatchRequest::kManifestFieldNumber):
      return ReadManifest(in, outline);
    case DelimitedTag(v1::PlanBatchRequest::kPassesFieldNumber):
      return ReadPass(in, outline);
    case DelimitedTag(v1::PlanBatchRequest::kTopologyFieldNumber):
      return ReadTopology(in, outline);
    case DelimitedTag(v1::PlanBatchRequest::kPipelineFieldNumber):
      return ReadPipeline(in, outline);
    case DelimitedTag(v1::PlanBatchRequest::kMiniBatchesFieldNumber):
      return ReadMiniBatches(in, outline);
    case VarintTag(v1::PlanBatchRequest::kEffortFieldNumber):
      return ReadNumber(in, &outline->effort);
    case VarintTag(v1::PlanBatchRequest::kOverlongFieldNumber):
      return ReadNumber(in, &outline->overlong);
    case VarintTag(v1::PlanBatchRequest::kAllowEmptyMicrobatchesFieldNumber):
      return ReadBool(in, &outline->allow_empty_microbatches);
    case DelimitedTag(v1::PlanBatchRequest::kSelectionFieldNumber):
      outline->selection = true;
      return WireFormatLite::SkipField(&in, tag);
    default:
      return WireFormatLite::SkipField(&in, tag);
  }
}

OutlinedString OutlineOf(const std::string& string) {
  return {.text = string.substr(0, OutlinedString::kMaxKeptBytes), .bytes = string.size()};
}

// `field` is that of ReadFields, with the stream and the outline as further arguments.
template <typename Field>
RequestOutline Outline(const grpc::ByteBuffer& bytes, const Field& field) {
  RequestOutline outline;
  grpc::ByteBuffer shared = bytes;  // shares its slices; a reader needs a non-const buffer
  grpc::ProtoBufferReader reader(&shared);
  if (!reader.status().ok()) return outline;
  outline.message_bytes = bytes.Length();
  CodedInputStream in(&reader);
  // Whether the message can be read to its end is left to the parser.
  static_cast<void>(ReadFields(in, [&](uint32_t tag) { return field(in, tag, &outline); }));
  return outline;
}

}  // namespace

RequestOutline OutlinePlanBatch(const grpc::ByteBuffer& bytes) {
  return Outline(bytes, ReadRequestField);
}

RequestOutline OutlineOf(const v1::PlanBatchRequest& request) {
  RequestOutline outline;
  outline.job_id = OutlineOf(request.job_id());
  outline.request_id = OutlineOf(request.request_id());
  outline.sequences = static_cast<uint64_t>(request.manifest().lengths_size());
  outline.passes = static_cast<uint64_t>(request.passes_size());
  outline.shared_prefixes = request.manifest().shared_prefixes_size() > 0;
  for (const v1::Load& load : request.manifest().loads()) {
    outline.load_values += static_cast<uint64_t>(load.values_size());
  }
  for (const v1::LoadItems& items : request.manifest().items()) {
    outline.items += static_cast<uint64_t>(items.values_size());
  }
  outline.data_parallel = request.topology().data_parallel();
  outline.pipeline_parallel = request.topology().pipeline_parallel();
  outline.virtual_pipeline = request.topology().virtual_pipeline();
  outline.context_parallel = request.topology().context_parallel();
  outline.dynamic_context = request.topology().has_dynamic_context();
  outline.min_size = request.topology().dynamic_context().min_size();
  outline.max_size = request.topology().dynamic_context().max_size();
  outline.group_size = request.pipeline().group_size();
  outline.mini_batch_size = request.mini_batches().size();
  outline.effort = static_cast<uint32_t>(request.effort());
  outline.overlong = static_cast<uint32_t>(request.overlong());
  outline.allow_empty_microbatches = request.allow_empty_microbatches();
  outline.selection = request.has_selection();
  for (const v1::Pass& pass : request.passes()) {
    if (outline.pass_options.size() == kMaxPasses) break;
    outline.pass_options.push_back({.min_microbatches = pass.min_microbatches(),
                                    .microbatch_count_multiple = pass.microbatch_count_multiple(),
                                    .ignore_mini_batches = pass.ignore_mini_batches()});
  }
  return outline;
}

RequestOutline OutlineJoinBatch(const grpc::ByteBuffer& bytes) {
  return Outline(bytes, [](CodedInputStream& in, uint32_t tag, RequestOutline* outline) {
    if (tag != DelimitedTag(v1::JoinBatchRequest::kRequestFieldNumber)) {
      return WireFormatLite::SkipField(&in, tag);
    }
    return ReadMessage(in, [&](uint32_t inner) { return ReadRequestField(in, inner, outline); });
  });
}

RequestOutline OutlineReportStep(const grpc::ByteBuffer& bytes) {
  return Outline(bytes, [](CodedInputStream& in, uint32_t tag, RequestOutline* outline) {
    switch (tag) {
      case DelimitedTag(v1::ReportStepRequest::kJobIdFieldNumber):
        return ReadString(in, &outline->job_id);
      case VarintTag(v1::ReportStepRequest::kStepFieldNumber):
        return in.ReadVarint64(&outline->step);
      case DelimitedTag(v1::ReportStepRequest::kMicrobatchesFieldNumber):
        ++outline->microbatches;
        return WireFormatLite::SkipField(&in, tag);
      default:
        return WireFormatLite::SkipField(&in, tag);
    }
  });
}

}  // namespace batchplan
