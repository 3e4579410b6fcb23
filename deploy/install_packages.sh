#!/usr/bin/env bash
# Installs the packages of Debian and Ubuntu that batchplan needs and that are missing; nothing if none is.
#
#   deploy/install_packages.sh build    what they are built with (Debian 12, 13, Ubuntu 24.04)
#   deploy/install_packages.sh python   what client/python is built with (those, and Ubuntu 22.04)
#   deploy/install_packages.sh test     both, and what the tests and checks need
#   deploy/install_packages.sh cluster  what images are built and a cluster is brought up with
#   deploy/install_packages.sh run PACKAGE...     these, and certificates
#   deploy/install_packages.sh needed PROGRAM...  installs nothing: prints the packages whose libraries the programs are
#                                                 linked with
#
# GRPC_SUITE names the suite of Debian that gRPC and Protobuf come from, such as experimental; by default they come from
# where everything does.
set -euo pipefail

grpc=(
  libprotobuf-dev protobuf-compiler libgrpc-dev libgrpc++-dev protobuf-compiler-grpc
)
planner=(
  g++ cmake ninja-build libprotobuf-dev protobuf-compiler libabsl-dev libssl-dev ca-certificates
)
build=(
  "${planner[@]}" pkg-config
  libgrpc++-dev protobuf-compiler-grpc prometheus-cpp-dev libcli11-dev libcurl4-openssl-dev
  libhiredis-dev nlohmann-json3-dev curl
)
python=(
  python3 python3-dev python3-venv
)
test=(
  libgtest-dev libgmock-dev libbenchmark-dev clang libclang-rt-dev clang-format clang-tidy mold
  redis-server prometheus chromium fonts-dejavu-core locales python3-torch
)
cluster=(
  podman buildah runc netavark aardvark-dns iptables debootstrap python3 python3-venv
)

case "${1:-}" in
  run) wanted=(ca-certificates "${@:2}") ;;
  needed)
    ldd "${@:2}" | awk '/=> \// { print "*/" $1 }' | sort -u | xargs dpkg -S | grep -v /lib32/ \
      | cut -d : -f 1 | sort -u
    exit ;;
  build) wanted=("${build[@]}") ;;
  cluster) wanted=("${cluster[@]}") ;;
  python) wanted=("${planner[@]}" "${python[@]}") ;;
  test) wanted=("${build[@]}" "${python[@]}" "${test[@]}") ;;
  *) echo "usage: $0 build|python|test|cluster|run PACKAGE...|needed PROGRAM..." >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
if [ -n "${GRPC_SUITE:-}" ]; then
  echo "deb http://deb.debian.org/debian $GRPC_SUITE main" | "${as_root[@]}" tee /etc/apt/sources.list.d/grpc.list
fi
"${as_root[@]}" apt-get update -q
if [ -n "${GRPC_SUITE:-}" ] && [ "$1" != run ]; then
  "${as_root[@]}" apt-get install -y -q --no-install-recommends "${grpc[@]/%//$GRPC_SUITE}"
fi
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
