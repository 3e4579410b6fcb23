#!/usr/bin/env bash
# Builds what a wheel is linked with, so that it needs nothing of the machine that it runs on but an old C library.
#
#   deploy/wheels/libraries.sh FOLDER
#
# FOLDER/sysroot is the C library of Debian 11 (glibc 2.31); FOLDER/prefix has Abseil and Protobuf, built from Debian
# 12's sources against it, and libcrypto, of which SHA-256 is linked: static, position-independent. A folder that is
# complete stays as it is. On Debian 12, after deploy/install_packages.sh python; five minutes on two cores.
set -euo pipefail
folder=$(realpath -m "${1:?names no folder; see the first lines of $0}")
sysroot=$folder/sysroot prefix=$folder/prefix
libc_release=bullseye release=bookworm
machine=$(gcc -print-multiarch)
[ ! -e "$folder/complete" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/sources" "$prefix/include" "$prefix/lib"

# The mirror is that of this machine; its list of sources and its packages are left alone.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $release" | head -n 1)
[ -n "$mirror" ] || { echo "$0: apt knows no mirror of Debian's $release; has apt-get update run?" >&2; exit 1; }
printf '%s\n' "deb $mirror $libc_release main" "deb-src $mirror $release main" >"$folder/apt/sources.list"
apt=(apt-get -q -o Dir::State::Lists="$folder/apt/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$folder/apt/cache"
  -o Dir::Etc::SourceList="$folder/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root)
cd "$folder/sources"
"${apt[@]}" update
"${apt[@]}" download libc6 libc6-dev libcrypt-dev linux-libc-dev
"${apt[@]}" source --download-only abseil protobuf

for package in *.deb; do dpkg-deb --extract "$package" "$sysroot"; done
# Its links are absolute, and would lead to this machine's libraries.
find "$sysroot" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  ln -sfr "$sysroot$(readlink "$link")" "$link"
done
# The compiler looks for its own headers there too, and for those of Debian's Pythons.
ln -s /usr/include/c++ "$sysroot/usr/include/c++"
ln -s "/usr/include/$machine/c++" "$sysroot/usr/include/$machine/c++"
for headers in "/usr/include/$machine"/python3.*; do
  [ ! -d "$headers" ] || ln -s "$headers" "$sysroot/usr/include/$machine/"
done

build() {
  local name=$1
  shift
  mkdir "$name"
  tar -xf "${name}_"*.orig.tar.gz -C "$name" --strip-components=1
  cmake -S "$name" -B "$name/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=20 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DCMAKE_VISIBILITY_INLINES_HIDDEN=ON \
    -DCMAKE_C_FLAGS="--sysroot=$sysroot" -DCMAKE_CXX_FLAGS="--sysroot=$sysroot -ffunction-sections -fdata-sections" \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF "$@"
  cmake --build "$name/build"
  cmake --install "$name/build" >/dev/null
}
build abseil -DABSL_PROPAGATE_CXX_STD=ON -DBUILD_TESTING=OFF
build protobuf -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_WITH_ZLIB=OFF

# Debian's is position-independent.
cp -r /usr/include/openssl "$prefix/include/openssl"
cp "/usr/include/$machine/openssl"/* "$prefix/include/openssl"
cp "/usr/lib/$machine/libcrypto.a" "$prefix/lib"
# The compiler's static libstdc++ asks this of a C library of 2.32 or later: whether there is one thread. No is safe.
echo 'char __attribute__((visibility("hidden"))) __libc_single_threaded = 0;' |
  gcc -x c -fPIC -c -o "$prefix/lib/single_threaded.o" -
rm -rf "$folder/sources" "$folder/apt"
touch "$folder/complete"
