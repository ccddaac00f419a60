// What attention needs beside matrix products: rows gathered into padded groups by head and back, the masked softmax of scores,
// and its gradient. And attention without products, for rows that each have keys of their own.
//
// A row of a group sees the keys [start, end) of `ranges`, and of those only the ones whose bit is set where `bits` is not null
// (a tree). Scores are lines [groups, heads, rows] of keys, from line `first` of all of them on; nothing outside the range is read,
// and it becomes 0.
#include "rows.cuh"

constexpr uint32_t NOBODY = 0xffffffffu;

// x [any, heads, dim] → y [groups, heads, rows, dim]: row r of group g is x[index[g · rows + r]], or 0 for nobody.
template <typename T, int V>
__device__ void gather_heads(const T* x, const uint32_t* index, T* y, uint32_t rows, uint32_t heads, uint32_t dim) {
    size_t group = blockIdx.x / rows, row = blockIdx.x % rows;
    uint32_t source = index[blockIdx.x];
    for (uint32_t i = threadIdx.x * V; i < heads * dim; i += blockDim.x * V) {
        uint32_t head = i / dim, at = i % dim;
        float a[V] = {};
        if (source != NOBODY) load(x + (size_t)source * heads * dim + i, a);
        store(y + ((group * heads + head) * rows + row) * dim + at, a);
    }
}

// The inverse: y[index[g · rows + r]] is row r of group g; rows of nobody are left out.
template <typename T, int V>
__device__ void scatter_heads(const T* x, const uint32_t* index, T* y, uint32_t rows, uint32_t heads, uint32_t dim) {
    size_t group = blockIdx.x / rows, row = blockIdx.x % rows;
    uint32_t target = index[blockIdx.x];
    if (target == NOBODY) return;
    for (uint32_t i = threadIdx.x * V; i < heads * dim; i += blockDim.x * V) {
        uint32_t head = i / dim, at = i % dim;
        float a[V];
        load(x + ((group * heads + head) * rows + row) * dim + at, a);
        store(y + (size_t)target * heads * dim + i, a);
    }
}

// Which keys a row sees.
struct Sight {
    uint32_t start, end;
    const uint32_t* bits;

    __device__ Sight(const uint2* ranges, const uint32_t* all, size_t line, uint32_t heads, uint32_t rows, uint32_t keys) {
        size_t at = line / ((size_t)heads * rows) * rows + line % rows;
        uint2 range = ranges[at];
        start = range.x, end = range.y;
        bits = all ? all + at * ((keys + 31) / 32) : nullptr;
    }
    __device__ bool any(uint32_t from, uint32_t count) const { return from < end && from + count > start; }
    __device__ bool one(uint32_t key) const {
        return key >= start && key < end && (!bits || (bits[key / 32] >> (key % 32)) & 1);
    }
};

// Numbers of a row that a thread keeps in registers, in packs.
constexpr int PACKS = 4;

template <typename T, int V>
__device__ void softmax(T* scores, const uint2* ranges, const uint32_t* bits, size_t first, size_t lines, uint32_t heads, uint32_t rows,
                        uint32_t keys, float scale) {
    size_t line = row_of_thread();
    bool real = line < lines;
    Sight sight(ranges, bits, first + (real ? line : 0), heads, rows, keys);
    scores += line * keys;
    float x[PACKS][V];
    float most = -INFINITY, sum = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        uint32_t key = (threadIdx.x + p * blockDim.x) * V;
        bool seen = real && key < keys && sight.any(key, V);
        if (seen) load(scores + key, x[p]);
        for (int j = 0; j < V; j++) {
            x[p][j] = seen && sight.one(key + j) ? x[p][j] * scale : -INFINITY;
            most = fmaxf(most, x[p][j]);
        }
    }
    most = over_row<Max>(most);
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        for (int j = 0; j < V; j++) {
            x[p][j] = __expf(x[p][j] - most);
            sum += x[p][j];
        }
    sum = 1.0f / over_row<Add>(sum);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        uint32_t key = (threadIdx.x + p * blockDim.x) * V;
        for (int j = 0; j < V; j++) x[p][j] *= sum;
        if (real && key < keys) store(scores + key, x[p]);
    }
}

// The same for rows that registers cannot hold: scores are read three times.
template <typename T, int V>
__device__ void softmax_long(T* scores, const uint2* ranges, const uint32_t* bits, size_t first, size_t lines, uint32_t heads,
                             uint32_t rows, uint32_t keys, float scale) {
    size_t line = blockIdx.x;
    Sight sight(ranges, bits, first + line, heads, rows, keys);
    scores += line * keys;
    float most = -INFINITY, sum = 0;
    for (uint32_t key = threadIdx.x * V; key < keys; key += blockDim.x * V) {
        if (!sight.any(key, V)) continue;
        float x[V];
        load(scores + key, x);
        for (int j = 0; j < V; j++)
            if (sight.one(key + j)) most = fmaxf(most, x[j] * scale);
    }
    most = over_row<Max>(most);
    for (uint32_t key = threadIdx.x * V; key < keys; key += blockDim.x * V) {
        if (!sight.any(key, V)) continue;
        float x[V];
        load(scores + key, x);
        for (int j = 0; j < V; j++)
            if (sight.one(key + j)) sum += __expf(x[j] * scale - most);
    }
    sum = 1.0f / over_row<Add>(sum);
    for (uint32_t key = threadIdx.x * V; key < keys; key += blockDim.x * V) {
        float x[V] = {};
        if (sight.any(key, V)) load(scores + key, x);
        for (int j = 0; j < V; j++) x[j] = sight.one(key + j) ? __expf(x[j] * scale - most) * sum : 0.0f;
        store(scores + key, x);
    }
}

// gradients ← scale · weights ∘ (gradients − Σ weights ∘ gradients): from dP to dS, P being 0 where a row does not look.
template <typename T, int V>
__device__ void softmax_backward(const T* weights, T* gradients, const uint2* ranges, size_t first, size_t lines, uint32_t heads,
                                 uint32_t rows, uint32_t keys, float scale) {
    size_t line = row_of_thread();
    bool real = line < lines;
    Sight sight(ranges, nullptr, first + (real ? line : 0), heads, rows, keys);
    weights += line * keys, gradients += line * keys;
    float w[PACKS][V], d[PACKS][V];
    float along = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        uint32_t key = (threadIdx.x + p * blockDim.x) * V;
        bool seen = real && key < keys && sight.any(key, V);
        for (int j = 0; j < V; j++) w[p][j] = d[p][j] = 0;
        if (seen) load(weights + key, w[p]), load(gradients + key, d[p]);
        for (int j = 0; j < V; j++) along += w[p][j] * d[p][j];
    }
    along = over_row<Add>(along);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        uint32_t key = (threadIdx.x + p * blockDim.x) * V;
        for (int j = 0; j < V; j++) d[p][j] = scale * w[p][j] * (d[p][j] - along);
        if (real && key < keys) store(gradients + key, d[p]);
    }
}

template <typename T, int V>
__device__ void softmax_backward_long(const T* weights, T* gradients, const uint2* ranges, size_t first, size_t lines, uint32_t heads,
                                      uint32_t rows, uint32_t keys, float scale) {
    size_t line = blockIdx.x;
    Sight sight(ranges, nullptr, first + line, heads, rows, keys);
    weights += line * keys, gradients += line * keys;
    float along = 0;
    for (uint32_t key = threadIdx.x * V; key < keys; key += blockDim.x * V) {
        if (!sight.any(key, V)) continue;
        float w[V], d[V];
        load(weights + key, w), load(gradients + key, d);
        for (int j = 0; j < V; j++) along += w[j] * d[j];
    }
    along = over_row<Add>(along);
    for (uint32_t key = threadIdx.x * V; key < keys; key += blockDim.x * V) {
        float w[V] = {}, d[V] = {};
        if (sight.any(key, V)) load(weights + key, w), load(gradients + key, d);
        for (int j = 0; j < V; j++) d[j] = scale * w[j] * (d[j] - along);
        store(gradients + key, d);
    }
}

// Most threads of a block of attend_rows.
constexpr int THREADS = 512;

// out [rows, heads, dim] of q over the keys of each row: k and v [slots, key_heads, dim] at keys[range.x .. range.y].
//
// A block has one row and head. dim / V threads share a key, each with V numbers of it, so several keys are read at once; each such
// group keeps its own maximum, sum and mean, and the groups are put together at the end.
template <typename T, int V>
__device__ void attend_rows(const T* q, const T* k, const T* v, const uint32_t* keys, const uint2* ranges, T* out, uint32_t heads,
                            uint32_t key_heads, uint32_t dim, float scale) {
    uint32_t row = blockIdx.x / heads, head = blockIdx.x % heads, key_head = head / (heads / key_heads);
    uint32_t lanes = dim / V, lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = blockDim.x / lanes;
    uint2 range = ranges[row];
    float x[V];
    load(q + (size_t)blockIdx.x * dim + lane * V, x);
    float most = -INFINITY, sum = 0, mean[V] = {};
    // All threads go round equally often, since a warp's groups add up together.
    for (uint32_t from = range.x; from < range.y; from += groups) {
        bool real = from + group < range.y;
        size_t at = real ? ((size_t)keys[from + group] * key_heads + key_head) * dim + lane * V : 0;
        float a[V] = {}, b[V] = {};
        if (real) load(k + at, a), load(v + at, b);
        float score = 0;
#pragma unroll
        for (int j = 0; j < V; j++) score += x[j] * a[j];
        for (uint32_t other = lanes / 2; other > 0; other /= 2) score += __shfl_xor_sync(0xffffffffu, score, other);
        if (real) {
            score *= scale;
            float larger = fmaxf(most, score), kept = __expf(most - larger), weight = __expf(score - larger);
            sum = sum * kept + weight;
#pragma unroll
            for (int j = 0; j < V; j++) mean[j] = mean[j] * kept + weight * b[j];
            most = larger;
        }
    }
    float highest = over_row<Max>(most), share = __expf(most - highest);
    float total = over_row<Add>(lane == 0 ? sum * share : 0.0f);
    __shared__ float parts[THREADS * V];
#pragma unroll
    for (int j = 0; j < V; j++) parts[threadIdx.x * V + j] = mean[j] * share;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < dim; i += blockDim.x) {
        float all = 0;
        for (uint32_t g = 0; g < groups; g++) all += parts[g * dim + i];
        narrow(all / total, out[(size_t)blockIdx.x * dim + i]);
    }
}

#define MOVE(T) (const T* x, const uint32_t* index, T* y, uint32_t rows, uint32_t heads, uint32_t dim)
EXPORT(gather_heads, MOVE, x, index, y, rows, heads, dim)
EXPORT(scatter_heads, MOVE, x, index, y, rows, heads, dim)
#define ATTEND_ROWS(T)                                                                                                      \
    (const T* q, const T* k, const T* v, const uint32_t* keys, const uint2* ranges, T* out, uint32_t heads, uint32_t key_heads, uint32_t dim, \
     float scale)
EXPORT(attend_rows, ATTEND_ROWS, q, k, v, keys, ranges, out, heads, key_heads, dim, scale)
#define SOFTMAX(T)                                                                                                   \
    (T* scores, const uint2* ranges, const uint32_t* bits, size_t first, size_t lines, uint32_t heads, uint32_t rows, uint32_t keys, \
     float scale)
EXPORT(softmax, SOFTMAX, scores, ranges, bits, first, lines, heads, rows, keys, scale)
EXPORT(softmax_long, SOFTMAX, scores, ranges, bits, first, lines, heads, rows, keys, scale)
#define SOFTMAX_BACKWARD(T)                                                                                    \
    (const T* weights, T* gradients, const uint2* ranges, size_t first, size_t lines, uint32_t heads, uint32_t rows, uint32_t keys, \
     float scale)
EXPORT(softmax_backward, SOFTMAX_BACKWARD, weights, gradients, ranges, first, lines, heads, rows, keys, scale)
EXPORT(softmax_backward_long, SOFTMAX_BACKWARD, weights, gradients, ranges, first, lines, heads, rows, keys, scale)
