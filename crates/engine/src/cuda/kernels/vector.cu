// Products of few rows with weights, y = x Wᵀ + bias, limited by reading the weights once: a warp for each output.
//
// Up to three matrices of one width are one launch, so that a token's queries, keys and values are; so are the two halves of SwiGLU.
#include "rows.cuh"

constexpr int WARPS = 8, PACK = 8, AHEAD = 4;

// The sums of a warp's output for M rows, over all lanes.
template <int M> __device__ __forceinline__ void dot(float (&sum)[M], const bf16* weights, const bf16* x, uint32_t width) {
    uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < M; m++) sum[m] = 0;
    // Several loads under way before the first is used.
    for (uint32_t at = lane * PACK; at < width; at += 32 * PACK * AHEAD) {
        Pack<bf16, PACK> w[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            uint32_t i = at + a * 32 * PACK;
            if (i < width) w[a] = *reinterpret_cast<const Pack<bf16, PACK>*>(weights + i);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            uint32_t i = at + a * 32 * PACK;
            if (i >= width) break;
#pragma unroll
            for (int m = 0; m < M; m++) {
                float row[PACK];
                load(x + (size_t)m * width + i, row);
#pragma unroll
                for (int j = 0; j < PACK; j++) sum[m] += widen(w[a].at[j]) * row[j];
            }
        }
    }
#pragma unroll
    for (int m = 0; m < M; m++) sum[m] = over_warp<Add>(sum[m]);
}

struct Product {
    const bf16 *weights, *bias;
    bf16* y;
    uint32_t outputs;
};

// x [M, width]; each y is [M, outputs]. A bias may be null.
template <int M>
__device__ void products(const bf16* x, uint32_t width, Product a, Product b, Product c) {
    uint32_t output = blockIdx.x * WARPS + threadIdx.x / 32;
    Product p = a;
    if (output >= p.outputs) output -= p.outputs, p = b;
    if (output >= p.outputs) output -= p.outputs, p = c;
    if (output >= p.outputs) return;
    float sum[M];
    dot<M>(sum, p.weights + (size_t)output * width, x, width);
    if (threadIdx.x % 32) return;
    float bias = p.bias ? widen(p.bias[output]) : 0.0f;
#pragma unroll
    for (int m = 0; m < M; m++) {
        // Rounded before the bias is added, as where that is a kernel of its own.
        float rounded_sum = rounded<bf16>(sum[m]);
        narrow(p.bias ? rounded_sum + bias : rounded_sum, p.y[(size_t)m * p.outputs + output]);
    }
}

// y [M, outputs] = silu(x gateᵀ) · x upᵀ.
template <int M>
__device__ void gated(const bf16* x, uint32_t width, const bf16* gate, const bf16* up, bf16* y, uint32_t outputs) {
    uint32_t output = blockIdx.x * WARPS + threadIdx.x / 32;
    if (output >= outputs) return;
    float g[M], u[M];
    dot<M>(g, gate + (size_t)output * width, x, width);
    dot<M>(u, up + (size_t)output * width, x, width);
    if (threadIdx.x % 32) return;
#pragma unroll
    for (int m = 0; m < M; m++) {
        float a = rounded<bf16>(g[m]);
        narrow(a / (1.0f + __expf(-a)) * rounded<bf16>(u[m]), y[(size_t)m * outputs + output]);
    }
}

#define FOR_ROWS(M)                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(32 * WARPS) vector_products_##M(                                                     \
        const bf16* x, uint32_t width, const bf16* w0, const bf16* b0, bf16* y0, uint32_t n0, const bf16* w1, const bf16* b1, bf16* y1, \
        uint32_t n1, const bf16* w2, const bf16* b2, bf16* y2, uint32_t n2) {                                                         \
        products<M>(x, width, {w0, b0, y0, n0}, {w1, b1, y1, n1}, {w2, b2, y2, n2});                                                  \
    }                                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(32 * WARPS) vector_gated_##M(const bf16* x, uint32_t width, const bf16* gate,        \
                                                                              const bf16* up, bf16* y, uint32_t outputs) {            \
        gated<M>(x, width, gate, up, y, outputs);                                                                                     \
    }
FOR_ROWS(1)
FOR_ROWS(2)
FOR_ROWS(4)
