// Operations on single numbers: SwiGLU and its gradients, a bias added to rows, rotary positions, dropout.
#include "rows.cuh"

__device__ __forceinline__ size_t first(int numbers) { return ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * numbers; }

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

template <typename T, int V> __device__ void silu_mul(const T* gate, const T* up, T* y, size_t count) {
    size_t i = first(V);
    if (i >= count) return;
    float g[V], u[V];
    load(gate + i, g), load(up + i, u);
    for (int j = 0; j < V; j++) g[j] = g[j] * sigmoid(g[j]) * u[j];
    store(y + i, g);
}

// dgate = dy up s (1 + gate (1 − s)) and dup = dy gate s, with s = sigmoid(gate).
template <typename T, int V>
__device__ void silu_mul_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, size_t count) {
    size_t i = first(V);
    if (i >= count) return;
    float g[V], u[V], d[V];
    load(gate + i, g), load(up + i, u), load(dy + i, d);
    for (int j = 0; j < V; j++) {
        float s = sigmoid(g[j]);
        float dg = d[j] * u[j] * s * (1.0f + g[j] * (1.0f - s));
        u[j] = d[j] * g[j] * s;
        g[j] = dg;
    }
    store(dgate + i, g), store(dup + i, u);
}

// y += bias in every row.
template <typename T, int V> __device__ void add_bias(T* y, const T* bias, size_t count, uint32_t width) {
    size_t i = first(V);
    if (i >= count) return;
    float a[V], b[V];
    load(y + i, a), load(bias + i % width, b);
    for (int j = 0; j < V; j++) a[j] += b[j];
    store(y + i, a);
}

// Pairs (i, i + half) of x [rows, heads, 2 half] turn by the angles of their row, [rows, half]; `sign` −1 turns back.
template <typename T, int V>
__device__ void rope(const T* x, const T* cosines, const T* sines, T* y, uint32_t heads, uint32_t half, float sign) {
    size_t row = blockIdx.x;
    x += row * heads * half * 2, y += row * heads * half * 2;
    for (uint32_t i = threadIdx.x * V; i < heads * half; i += blockDim.x * V) {
        uint32_t head = i / half, at = i % half;
        float a[V], b[V], c[V], s[V];
        load(x + head * half * 2 + at, a), load(x + head * half * 2 + half + at, b);
        load(cosines + row * half + at, c), load(sines + row * half + at, s);
        for (int j = 0; j < V; j++) {
            float turned = a[j] * c[j] - sign * b[j] * s[j];
            b[j] = b[j] * c[j] + sign * a[j] * s[j];
            a[j] = turned;
        }
        store(y + head * half * 2 + at, a), store(y + head * half * 2 + half + at, b);
    }
}

// What a new row does between its projections and attention: queries turn, keys turn and go to the row's slot, and so do values.
template <typename T, int V>
__device__ void rope_into(const T* q, const T* k, const T* v, const T* cosines, const T* sines, const uint32_t* slots, T* y, T* keys,
                          T* values, uint32_t heads, uint32_t key_heads, uint32_t half) {
    size_t row = blockIdx.x, slot = slots[row];
    uint32_t width = key_heads * half * 2;
    q += row * heads * half * 2, y += row * heads * half * 2;
    k += row * width, v += row * width, keys += slot * width, values += slot * width;
    cosines += row * half, sines += row * half;
    for (uint32_t i = threadIdx.x * V; i < (heads + key_heads) * half; i += blockDim.x * V) {
        uint32_t head = i / half, at = i % half;
        const T* from = head < heads ? q + head * half * 2 : k + (head - heads) * half * 2;
        T* to = head < heads ? y + head * half * 2 : keys + (head - heads) * half * 2;
        float a[V], b[V], c[V], s[V];
        load(from + at, a), load(from + half + at, b), load(cosines + at, c), load(sines + at, s);
        for (int j = 0; j < V; j++) {
            float turned = a[j] * c[j] - b[j] * s[j];
            b[j] = b[j] * c[j] + a[j] * s[j];
            a[j] = turned;
        }
        store(to + at, a), store(to + half + at, b);
    }
    for (uint32_t i = threadIdx.x * V; i < width; i += blockDim.x * V) {
        float a[V];
        load(v + i, a);
        store(values + i, a);
    }
}

// Chris Wellons' lowbias32.
__device__ __forceinline__ uint32_t mix(uint32_t h) {
    h ^= h >> 16, h *= 0x7feb352du;
    h ^= h >> 15, h *= 0x846ca68bu;
    return h ^ (h >> 16);
}

// The same positions are dropped as by `rows::dropout` of the CPU's kernels, which documents the hash. x and y may be the same.
template <typename T, int V>
__device__ void dropout(const T* x, T* y, size_t count, uint32_t key0, uint32_t key1, uint32_t limit, float scale) {
    size_t i = first(V);
    if (i >= count) return;
    float a[V];
    load(x + i, a);
    for (int j = 0; j < V; j++) {
        uint64_t at = i + j;
        uint32_t hash = mix(mix((uint32_t)at ^ key0) + key1 + (uint32_t)(at >> 32));
        a[j] = hash >= limit ? a[j] * scale : 0.0f;
    }
    store(y + i, a);
}

#define SILU(T) (const T* gate, const T* up, T* y, size_t count)
EXPORT(silu_mul, SILU, gate, up, y, count)
#define SILU_BACKWARD(T) (const T* gate, const T* up, const T* dy, T* dgate, T* dup, size_t count)
EXPORT(silu_mul_backward, SILU_BACKWARD, gate, up, dy, dgate, dup, count)
#define BIAS(T) (T* y, const T* bias, size_t count, uint32_t width)
EXPORT(add_bias, BIAS, y, bias, count, width)
#define ROPE(T) (const T* x, const T* cosines, const T* sines, T* y, uint32_t heads, uint32_t half, float sign)
EXPORT(rope, ROPE, x, cosines, sines, y, heads, half, sign)
#define ROPE_INTO(T)                                                                                                              \
    (const T* q, const T* k, const T* v, const T* cosines, const T* sines, const uint32_t* slots, T* y, T* keys, T* values, uint32_t heads, \
     uint32_t key_heads, uint32_t half)
EXPORT(rope_into, ROPE_INTO, q, k, v, cosines, sines, slots, y, keys, values, heads, key_heads, half)
#define DROPOUT(T) (const T* x, T* y, size_t count, uint32_t key0, uint32_t key1, uint32_t limit, float scale)
EXPORT(dropout, DROPOUT, x, y, count, key0, key1, limit, scale)
