// Bytes of HTTP/2, to send what no gRPC client would.

#ifndef BATCHPLAN_TESTS_SERVER_SERVICE_HTTP2_FRAMES_H_
#define BATCHPLAN_TESTS_SERVER_SERVICE_HTTP2_FRAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace batchplan::http2 {

enum FrameType : uint8_t { kData = 0, kHeaders = 1, kResetStream = 3, kSettings = 4 };

constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;

inline std::string Frame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame.append(payload);
}

inline std::string Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; }

// The beginning of a connection: the preface and empty settings.
inline std::string Greeting() { return Preface() + Frame(kSettings, 0, 0, ""); }

// A header without indexing, with name and value of at most 126 bytes each.
inline std::string Literal(std::string_view name, std::string_view value) {
  std::string literal(1, '\0');
  literal.append(1, static_cast<char>(name.size())).append(name);
  return literal.append(1, static_cast<char>(value.size())).append(value);
}

// The headers of a PlanBatch call whose message follows.
inline std::string PlanBatchHeaders(uint32_t stream, uint8_t flags = kEndHeaders) {
  return Frame(kHeaders, flags, stream,
               "\x83\x86" + Literal(":path", "/batchplan.v1.BatchPlanner/PlanBatch") +
                   Literal(":authority", "test") + Literal("te", "trailers") +
                   Literal("content-type", "application/grpc"));
}

// The five bytes in front of a message.
inline std::string MessagePrefix(uint32_t length) {
  std::string prefix(1, '\0');
  for (const int shift : {24, 16, 8, 0}) prefix += static_cast<char>(length >> shift);
  return prefix;
}

}  // namespace batchplan::http2

#endif  // BATCHPLAN_TESTS_SERVER_SERVICE_HTTP2_FRAMES_H_
