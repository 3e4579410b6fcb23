#include "src/backends.h"

namespace batchplan::kernels::cuda {

batchplan_status BackendStatus() { return BATCHPLAN_ERROR_BACKEND_NOT_BUILT; }

const char* LastError() { return ""; }

batchplan_status ComputeLayout(const SequenceLengths& /*sequences*/,
                               const batchplan_layout_options& /*options*/,
                               const batchplan_packed_layout& /*layout*/,
                               batchplan_status* /*error_word*/, void* /*stream*/) {
  return BackendStatus();
}

batchplan_status Pack(const Movement& /*movement*/, batchplan_status* /*error_word*/,
                      void* /*stream*/) {
  return BackendStatus();
}

batchplan_status Unpack(const Movement& /*movement*/, batchplan_status* /*error_word*/,
                        void* /*stream*/) {
  return BackendStatus();
}

batchplan_status UnpackGradient(const GradientTask& /*task*/, batchplan_status* /*error_word*/,
                                void* /*stream*/) {
  return BackendStatus();
}

batchplan_status Reduce(const Row& /*row*/, const batchplan_reduction& /*reduction*/,
                        batchplan_status* /*error_word*/, const Workspace& /*workspace*/,
                        void* /*stream*/) {
  return BackendStatus();
}

batchplan_status Copy(void* /*destination*/, const void* /*source*/, size_t /*bytes*/,
                      void* /*stream*/) {
  return BackendStatus();
}

batchplan_status Wait(void* /*stream*/) { return BackendStatus(); }

}  // namespace batchplan::kernels::cuda
