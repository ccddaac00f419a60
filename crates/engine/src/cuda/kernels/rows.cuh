// Loads and stores of several numbers at once, and sums over the threads of a row. Arithmetic is f32 everywhere.
//
// A kernel is a template over the stored type T and over V, the numbers a thread moves at once: 16 bytes, or one number where
// the width or the address does not allow it. EXPORT names all four: `name_bf16`, `name_f32`, `name_bf16_single`, `name_f32_single`.
#pragma once
#include <cuda_bf16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

template <typename T, int V> struct alignas(V * sizeof(T)) Pack { T at[V]; };

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void narrow(float x, float& y) { y = x; }
__device__ __forceinline__ void narrow(float x, bf16& y) { y = __float2bfloat16_rn(x); }

template <int V, typename T> __device__ __forceinline__ void load(const T* from, float (&x)[V]) {
    Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(from);
#pragma unroll
    for (int i = 0; i < V; i++) x[i] = widen(pack.at[i]);
}

template <int V, typename T> __device__ __forceinline__ void store(T* to, const float (&x)[V]) {
    Pack<T, V> pack;
#pragma unroll
    for (int i = 0; i < V; i++) narrow(x[i], pack.at[i]);
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

// What a number becomes when it is stored as T and read again.
template <typename T> __device__ __forceinline__ float rounded(float x) {
    T y;
    narrow(x, y);
    return widen(y);
}

struct Add { __device__ static float of(float a, float b) { return a + b; } };
struct Max { __device__ static float of(float a, float b) { return fmaxf(a, b); } };

template <typename Op> __device__ __forceinline__ float over_warp(float x) {
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}

// Over the blockDim.x threads of one row, a multiple of 32; rows of one warp lie side by side in a block along y.
// Every thread of the block calls it, and every thread gets the result.
template <typename Op> __device__ __forceinline__ float over_row(float x) {
    x = over_warp<Op>(x);
    if (blockDim.x == 32) return x;
    __shared__ float parts[32];
    int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[warp] = x;
    __syncthreads();
    x = parts[0];
    for (int i = 1; i < warps; i++) x = Op::of(x, parts[i]);
    return x;
}

// The row of this thread, and whether it exists: a block may reach past the last row.
__device__ __forceinline__ size_t row_of_thread() { return (size_t)blockIdx.x * blockDim.y + threadIdx.y; }

#define EXPORT(name, parameters, ...)                                                                        \
    extern "C" __global__ void name##_bf16 parameters(bf16) { name<bf16, 8>(__VA_ARGS__); }                  \
    extern "C" __global__ void name##_f32 parameters(float) { name<float, 4>(__VA_ARGS__); }                 \
    extern "C" __global__ void name##_bf16_single parameters(bf16) { name<bf16, 1>(__VA_ARGS__); }           \
    extern "C" __global__ void name##_f32_single parameters(float) { name<float, 1>(__VA_ARGS__); }
