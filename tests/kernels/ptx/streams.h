// The order of work on the device: streams, the legacy default stream, and captured graphs.
//
// Work is deferred until something waits for its stream, as late as a device might do it: a test
// that forgets to wait reads old bytes. For one thread at a time.

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
  // While it is captured.
  std::unique_ptr<Graph> capture;
  bool capture_is_global = false;
  bool capture_is_invalid = false;
};

class Streams {
 public:
  static Streams& Get();

  cudaStream_t Create();
  // nullptr: unknown.
  Stream* Find(cudaStream_t handle);
  // After its work is done.
  void Destroy(cudaStream_t handle);

  // Into the capture, if there is one. An error if it may not be enqueued now.
  cudaError_t Enqueue(Stream& stream, Work work);
  void Wait(Stream& stream);
  void WaitForAll();

  cudaError_t BeginCapture(Stream& stream, bool is_global);
  // nullptr: invalid, or none.
  std::unique_ptr<Graph> EndCapture(Stream& stream);
  // Of a call that may not be made while a stream is captured: invalidates the captures.
  cudaError_t CheckNoCapture();

 private:
  static void Drain(Stream& stream);
  // What is enqueued in `stream` runs after what is in those that it waits for.
  void Order(const Stream& stream);

  Stream legacy_;
  std::map<cudaStream_t, std::unique_ptr<Stream>> streams_;
};

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_STREAMS_H_
