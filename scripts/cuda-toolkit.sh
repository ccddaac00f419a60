#!/usr/bin/env bash
# A CUDA 13.0 compiler from PyPI, for building with `--features cuda` where no toolkit is installed.
# Usage: . scripts/cuda-toolkit.sh [FOLDER]      then: cargo build --release --features cuda
#
# Packages only compilers, headers and libraries; the driver (libcuda.so.1) belongs to the machine with the GPU. What
# we link against is a stub with that name whose symbols the real driver provides at run time.
set -e
folder=${1:-target/cuda-toolkit}
if [ ! -x "$folder/bin/pip" ]; then python3 -m venv "$folder"; fi
"$folder/bin/pip" -q install --no-deps nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 \
    nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-curand==10.4.0.35 \
    nvidia-cublas==13.1.0.3
root=$(cd "$folder" && echo "$PWD"/lib/python3*/site-packages/nvidia/cu13)
for name in cudart curand cublas cublasLt nvrtc; do
    file=$(cd "$root/lib" && ls | grep "^lib$name\.so\.[0-9]" | grep -v alt | head -1)
    ln -sf "$file" "$root/lib/lib$name.so"
done
ln -sfn lib "$root/lib64"
mkdir -p "$root/lib/stubs"
echo >"$folder/empty.c"
cc -shared -o "$root/lib/stubs/libcuda.so" "$folder/empty.c" -Wl,-soname,libcuda.so.1
export CUDA_HOME="$root" CUDA_PATH="$root" CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90} NVCC="$root/bin/nvcc" PATH="$root/bin:$PATH"
# The stub defines nothing, so the driver's symbols stay open: run the program with the driver's libcuda.so.1 in LD_PRELOAD.
export RUSTFLAGS="-L $root/lib -L $root/lib/stubs -C link-arg=-Wl,--no-as-needed -C link-arg=-Wl,--unresolved-symbols=ignore-all"
set +e
