// The order of work on the device: streams, the legacy default stream, and captured graphs.
//
// Work is deferred until something waits for its stream, the latest time at which a device might do
// it. So a test that forgets to wait reads old bytes. For one thread at a time.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_STREAMS_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_STREAMS_H_

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace batchplan::ptx {

using Work = std::function<void()>;

struct Graph {
  std::vector<Work> nodes;
};

struct Stream {
  std::deque<Work> queue;
  // Set while the stream is captured.
  std::unique_ptr<Graph> capture;
  bool capture_is_global = false;
  bool capture_is_invalid = false;
};

class Streams {
 public:
  static Streams& Get();

  cudaStream_t Create();
  // nullptr if unknown.
  Stream* Find(cudaStream_t handle);
  // Destroys the stream when its work is done.
  void Destroy(cudaStream_t handle);

  // Adds to the capture, if there is one. An error if nothing may be enqueued now.
  cudaError_t Enqueue(Stream& stream, Work work);
  void Wait(Stream& stream);
  void WaitForAll();

  cudaError_t BeginCapture(Stream& stream, bool is_global);
  // nullptr if the capture is invalid, or if there is none.
  std::unique_ptr<Graph> EndCapture(Stream& stream);
  // For a call that may not be made while a stream is captured: invalidates all captures.
  cudaError_t CheckNoCapture();

 private:
  static void Drain(Stream& stream);
  // Later work in `stream` runs after the work in the streams that it waits for.
  void Order(const Stream& stream);

  Stream legacy_;
  std::map<cudaStream_t, std::unique_ptr<Stream>> streams_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_STREAMS_H_
