// Tiles of bf16 numbers in shared memory, and products of them by a warp's matrix instructions (m16n8k16, Ampere and later).
//
// A tile has rows of D numbers, in chunks of 16 bytes; chunk c of row r lies at c ^ (r mod 8), so that eight rows of one column of
// chunks lie in different banks. Of a product's 16 × 8 results a lane has (g, 2t), (g, 2t + 1), (g + 8, 2t) and (g + 8, 2t + 1), with
// g = lane / 4 and t = lane mod 4.
#pragma once
#include "rows.cuh"

template <int D> __device__ __forceinline__ uint32_t chunk_at(uint32_t tile, uint32_t row, uint32_t chunk) {
    return tile + row * (D * 2) + ((chunk ^ (row & 7)) << 4);
}

__device__ __forceinline__ uint32_t shared_address(const void* at) { return (uint32_t)__cvta_generic_to_shared(at); }

// Copies 16 bytes into shared memory, or zeros.
__device__ __forceinline__ void copy_chunk(uint32_t to, const void* from, bool real) {
    int bytes = real ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// Copies one number of 4 bytes, or zero.
__device__ __forceinline__ void copy_number(void* to, const float* from, bool real) {
    int bytes = real ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_started() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Waits until at most `Left` groups of copies are under way.
template <int Left> __device__ __forceinline__ void copies_done() { asm volatile("cp.async.wait_group %0;\n" ::"n"(Left) : "memory"); }

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

// 16 rows from `row` on of 16 numbers from chunk `chunk` on, as a left factor.
template <int D> __device__ __forceinline__ void left_factor(uint32_t (&a)[4], uint32_t tile, uint32_t row, uint32_t chunk) {
    uint32_t lane = threadIdx.x % 32;
    load_matrices(a, chunk_at<D>(tile, row + (lane & 15), chunk + (lane >> 4)));
}
// The same as a right factor, transposed: 16 columns are the tile's rows. Two products of 8 columns each take b[0], b[1] and b[2], b[3].
template <int D> __device__ __forceinline__ void right_rows(uint32_t (&b)[4], uint32_t tile, uint32_t row, uint32_t chunk) {
    uint32_t lane = threadIdx.x % 32;
    load_matrices(b, chunk_at<D>(tile, row + (lane & 7) + ((lane >> 4) << 3), chunk + ((lane >> 3) & 1)));
}
// As a right factor as it lies: 16 columns are the tile's numbers from chunk `chunk` on.
template <int D> __device__ __forceinline__ void right_columns(uint32_t (&b)[4], uint32_t tile, uint32_t row, uint32_t chunk) {
    uint32_t lane = threadIdx.x % 32;
    load_transposed(b, chunk_at<D>(tile, row + (lane & 7) + (((lane >> 3) & 1) << 3), chunk + (lane >> 4)));
}

// c += a b.
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pair(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<uint32_t*>(&both);
}
// Two neighboring 16 × 8 results, rounded, as the left factor of a product over their 16 columns.
__device__ __forceinline__ void as_left(uint32_t (&a)[4], const float (&x)[4], const float (&y)[4]) {
    a[0] = pair(x[0], x[1]), a[1] = pair(x[2], x[3]), a[2] = pair(y[0], y[1]), a[3] = pair(y[2], y[3]);
}

__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}
