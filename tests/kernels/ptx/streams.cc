#include "ptx/streams.h"

#include <utility>

namespace batchplan::ptx {

Streams& Streams::Get() {
  static auto* const streams = new Streams;
  return *streams;
}

cudaStream_t Streams::Create() {
  auto stream = std::make_unique<Stream>();
  auto* const handle = reinterpret_cast<cudaStream_t>(stream.get());
  streams_[handle] = std::move(stream);
  return handle;
}

Stream* Streams::Find(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return &legacy_;
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second.get();
}

void Streams::Destroy(cudaStream_t handle) {
  if (Stream* const stream = Find(handle)) Wait(*stream);
  streams_.erase(handle);
}

void Streams::Drain(Stream& stream) {
  while (!stream.queue.empty()) {
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    work();
  }
}

// The legacy default stream waits for all others, and they wait for it.
void Streams::Order(const Stream& stream) {
  if (&stream != &legacy_) return Drain(legacy_);
  for (auto& [handle, other] : streams_) Drain(*other);
}

cudaError_t Streams::Enqueue(Stream& stream, Work work) {
  if (stream.capture != nullptr) {
    stream.capture->nodes.push_back(std::move(work));
    return cudaSuccess;
  }
  // The default stream would wait for the captured one.
  if (&stream == &legacy_ && CheckNoCapture() != cudaSuccess) return cudaErrorStreamCaptureImplicit;
  Order(stream);
  stream.queue.push_back(std::move(work));
  return cudaSuccess;
}

void Streams::Wait(Stream& stream) {
  Order(stream);
  Drain(stream);
}

void Streams::WaitForAll() {
  for (auto& [handle, stream] : streams_) Drain(*stream);
  Drain(legacy_);
}

cudaError_t Streams::BeginCapture(Stream& stream, bool is_global) {
  if (&stream == &legacy_) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture != nullptr) return cudaErrorIllegalState;
  stream.capture = std::make_unique<Graph>();
  stream.capture_is_global = is_global;
  stream.capture_is_invalid = false;
  return cudaSuccess;
}

std::unique_ptr<Graph> Streams::EndCapture(Stream& stream) {
  std::unique_ptr<Graph> graph = std::exchange(stream.capture, nullptr);
  return stream.capture_is_invalid ? nullptr : std::move(graph);
}

cudaError_t Streams::CheckNoCapture() {
  bool is_captured = false;
  for (auto& [handle, stream] : streams_) {
    if (stream->capture == nullptr || !stream->capture_is_global) continue;
    stream->capture_is_invalid = true;
    is_captured = true;
  }
  return is_captured ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

}  // namespace batchplan::ptx
