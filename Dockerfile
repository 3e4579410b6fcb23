# The images of batchplan, built from the project's root:
#
#   docker build --target server -t batchplan/server .
#   docker build --target trainers -t batchplan/trainers .
#   docker build --target worker -t batchplan/worker \
#     --build-arg WORKER_IMAGE=docker.io/nvidia/cuda:13.0.1-devel-ubuntu24.04 .
#   docker build --target server -t batchplan/server \
#     --build-arg BASE_IMAGE=docker.io/library/debian:sid-slim --build-arg GRPC_SUITE=experimental .
#
# GRPC_SUITE is the suite of Debian that gRPC and Protobuf come from, where those of the base image are too old. The base
# image is of the suite that it builds on.
#
# All run as a user without privileges and write nothing, so that the root file system may be
# read-only. WORKER_IMAGE needs apt; with nvcc in it the worker's kernels have the CUDA backend,
# without they have that of the host alone.

ARG BASE_IMAGE=docker.io/library/debian:bookworm-20250520-slim
ARG WORKER_IMAGE=${BASE_IMAGE}
ARG GRPC_SUITE=

FROM ${BASE_IMAGE} AS build
ARG GRPC_SUITE
WORKDIR /src
COPY deploy/install_packages.sh deploy/
RUN deploy/install_packages.sh build && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release -DBATCHPLAN_CUDA=OFF -DBATCHPLAN_TESTS=OFF -DBATCHPLAN_BENCHMARKS=OFF -DBATCHPLAN_WERROR=OFF \
  && cmake --build --preset release --target batchplan-server batchplan trainers_example \
  && strip build/release/bin/* \
  && deploy/install_packages.sh needed build/release/bin/* >build/packages

FROM ${BASE_IMAGE} AS runtime
ARG GRPC_SUITE
COPY deploy/install_packages.sh /tmp/
COPY --from=build /src/build/packages /tmp/
RUN /tmp/install_packages.sh run $(cat /tmp/packages) \
  && rm -rf /var/lib/apt/lists/* /tmp/install_packages.sh /tmp/packages
USER 65532:65532

FROM runtime AS trainers
LABEL org.opencontainers.image.title="batchplan trainers" \
  org.opencontainers.image.description="Jobs that ask a batchplan server for plans, for its dashboards" \
  org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/build/release/bin/trainers_example /usr/local/bin/
ENTRYPOINT ["trainers_example"]

FROM ${WORKER_IMAGE} AS worker
WORKDIR /src
COPY deploy/install_packages.sh deploy/
RUN deploy/install_packages.sh build && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release -DBATCHPLAN_TESTS=OFF -DBATCHPLAN_BENCHMARKS=OFF -DBATCHPLAN_WERROR=OFF \
  && cmake --build --preset release \
  && cmake --install build/release \
  && cp build/release/bin/worker_example /usr/local/bin/ \
  && rm -rf /src
LABEL org.opencontainers.image.title="batchplan worker" \
  org.opencontainers.image.description="The client and the kernels that pack tensors by plan, to build on" \
  org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
ENTRYPOINT ["worker_example"]

# Last: what is built unless a target is named.
FROM runtime AS server
LABEL org.opencontainers.image.title="batchplan server" \
  org.opencontainers.image.description="Plans the batches of LLM trainers: bins, shards and micro-batches over gRPC" \
  org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/build/release/bin/batchplan-server /src/build/release/bin/batchplan /usr/local/bin/
ENV BATCHPLAN_LISTEN=0.0.0.0:50051 BATCHPLAN_METRICS_LISTEN=0.0.0.0:9464
EXPOSE 50051 9464
# /healthz by bash itself: the image has nothing else that speaks HTTP.
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s CMD ["bash", "-c", \
  "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '200 OK' <&3"]
ENTRYPOINT ["batchplan-server"]
