// What marks the arithmetic that the host executor and the CUDA kernels share.

#ifndef BATCHPLAN_KERNELS_SRC_HOST_DEVICE_H_
#define BATCHPLAN_KERNELS_SRC_HOST_DEVICE_H_

#ifdef __CUDACC__
#define BATCHPLAN_HOST_DEVICE __host__ __device__
#else
#define BATCHPLAN_HOST_DEVICE
#endif

#endif  // BATCHPLAN_KERNELS_SRC_HOST_DEVICE_H_
