// Draws one token from each row of logits [rows, vocabulary]: a block per row.
//
// y[2 row] is the token: the first whose cumulative share passes `uniform` of the whole, shares being exp((x − max x) / temperature); at
// temperature 0, and where 1 / temperature overflows, the best, of equals the lowest. y[2 row + 1] is log softmax(x)[token], a float's bits.
// A row that is no distribution (NaN, +∞, or −∞ throughout) gives NOBODY.
#include "rows.cuh"

constexpr uint32_t NOBODY = 0xffffffffu;
constexpr int WARPS = 16;

template <typename T, int V>
__device__ void draw(const T* logits, const float* temperatures, const float* uniforms, uint32_t* y, uint32_t width) {
    __shared__ float sums[WARPS];
    __shared__ uint32_t drawn;
    uint32_t row = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    logits += (size_t)row * width;
    float temperature = temperatures[row];

    float most = -INFINITY, bad = 0;
    for (uint32_t i = threadIdx.x * V; i < width; i += blockDim.x * V) {
        float a[V];
        load(logits + i, a);
        for (int j = 0; j < V; j++) {
            most = fmaxf(most, a[j]);
            if (!(a[j] < INFINITY)) bad = 1;
        }
    }
    most = over_row<Max>(most);
    if (over_row<Max>(bad) > 0 || most == -INFINITY) {
        if (threadIdx.x == 0) y[2 * row] = NOBODY, y[2 * row + 1] = 0;
        return;
    }

    // Each warp has a run of its own, so that the order of tokens is kept.
    uint32_t run = (width + WARPS * V - 1) / (WARPS * V) * V, from = warp * run, to = min(from + run, width);
    float steep = temperature > 0 ? 1.0f / temperature : INFINITY, sum = 0, plain = 0, best = -INFINITY;
    bool greedy = !(steep < INFINITY);
    if (greedy) steep = 0;
    for (uint32_t i = from + lane * V; i < to; i += 32 * V) {
        float a[V];
        load(logits + i, a);
        for (int j = 0; j < V; j++) {
            plain += __expf(a[j] - most);
            sum += __expf((a[j] - most) * steep);
            // Ids are exact in a float; the lowest is the largest negative.
            if (a[j] == most) best = fmaxf(best, -(float)(i + j));
        }
    }
    plain = over_row<Add>(plain);
    best = over_row<Max>(best);
    sum = over_warp<Add>(sum);
    if (lane == 0) sums[warp] = sum;
    if (threadIdx.x == 0) drawn = (uint32_t)-best;
    __syncthreads();
    if (!greedy) {
        float whole = 0, before = 0, along_warps = 0;
        for (int i = 0; i < WARPS; i++) whole += sums[i];
        float wanted = uniforms[row] * whole;
        int chosen = 0;
        // Where rounding would pass all of them, the last warp with a share at all.
        for (int i = 0; i < WARPS; i++) {
            if (sums[i] > 0) chosen = i, before = along_warps;
            along_warps += sums[i];
            if (along_warps > wanted) break;
        }
        if ((int)warp == chosen) {
            float left = wanted - before;
            uint32_t last = from;
            bool found = false;
            for (uint32_t base = from; base < to && !found; base += 32) {
                uint32_t i = base + lane;
                float share = i < to ? __expf((widen(logits[i]) - most) * steep) : 0.0f, along = share;
#pragma unroll
                for (int offset = 1; offset < 32; offset *= 2) {
                    float other = __shfl_up_sync(0xffffffffu, along, offset);
                    if (lane >= offset) along += other;
                }
                uint32_t passed = __ballot_sync(0xffffffffu, share > 0 && along > left);
                uint32_t some = __ballot_sync(0xffffffffu, share > 0);
                if (passed) last = base + __ffs(passed) - 1, found = true;
                else if (some) last = base + 31 - __clz(some);
                left -= __shfl_sync(0xffffffffu, along, 31);
            }
            if (lane == 0) drawn = last;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        y[2 * row] = drawn;
        y[2 * row + 1] = __float_as_uint(widen(logits[drawn]) - most - logf(plain));
    }
}

#define DRAW(T) (const T* logits, const float* temperatures, const float* uniforms, uint32_t* y, uint32_t width)
EXPORT(draw, DRAW, logits, temperatures, uniforms, y, width)
