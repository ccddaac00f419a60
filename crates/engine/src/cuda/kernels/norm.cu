// RMSNorm y = x / √(mean x² + ε) · w over rows, with the residual addition before it, and its gradients.
//
//   dx = r (w dy − x r² mean(w dy x)) + add        dw = Σ rows dy x r        r = 1 / √(mean x² + ε)
//
// A row is read twice; the second time it comes from the first-level cache.
#include "rows.cuh"

template <typename T, int V>
__device__ void rms_norm(const T* x, const T* weight, T* y, uint32_t rows, uint32_t width, float eps) {
    size_t row = row_of_thread();
    bool real = row < rows;
    x += row * width, y += row * width;
    float squares = 0;
    for (uint32_t i = threadIdx.x * V; real && i < width; i += blockDim.x * V) {
        float a[V];
        load(x + i, a);
        for (int j = 0; j < V; j++) squares += a[j] * a[j];
    }
    float r = rsqrtf(over_row<Add>(squares) / width + eps);
    for (uint32_t i = threadIdx.x * V; real && i < width; i += blockDim.x * V) {
        float a[V], w[V];
        load(x + i, a), load(weight + i, w);
        for (int j = 0; j < V; j++) a[j] = a[j] * r * w[j];
        store(y + i, a);
    }
}

// sum = x + added, y = norm of sum as it was stored.
template <typename T, int V>
__device__ void add_rms_norm(const T* x, const T* added, const T* weight, T* sum, T* y, uint32_t rows, uint32_t width,
                             float eps) {
    size_t row = row_of_thread();
    bool real = row < rows;
    x += row * width, added += row * width, sum += row * width, y += row * width;
    float squares = 0;
    for (uint32_t i = threadIdx.x * V; real && i < width; i += blockDim.x * V) {
        float a[V], b[V];
        load(x + i, a), load(added + i, b);
        for (int j = 0; j < V; j++) {
            a[j] = rounded<T>(a[j] + b[j]);
            squares += a[j] * a[j];
        }
        store(sum + i, a);
    }
    float r = rsqrtf(over_row<Add>(squares) / width + eps);
    // Every thread reads back what it wrote itself.
    for (uint32_t i = threadIdx.x * V; real && i < width; i += blockDim.x * V) {
        float a[V], w[V];
        load(sum + i, a), load(weight + i, w);
        for (int j = 0; j < V; j++) a[j] = a[j] * r * w[j];
        store(y + i, a);
    }
}

// `add` may be null.
template <typename T, int V>
__device__ void rms_norm_backward(const T* x, const T* weight, const T* dy, const T* add, T* dx, uint32_t rows,
                                  uint32_t width, float eps) {
    size_t row = row_of_thread();
    bool real = row < rows;
    x += row * width, dy += row * width, dx += row * width;
    if (add) add += row * width;
    float squares = 0, along = 0;
    for (uint32_t i = threadIdx.x * V; real && i < width; i += blockDim.x * V) {
        float a[V], w[V], d[V];
        load(x + i, a), load(weight + i, w), load(dy + i, d);
        for (int j = 0; j < V; j++) {
            squares += a[j] * a[j];
            along += a[j] * w[j] * d[j];
        }
    }
    float r = rsqrtf(over_row<Add>(squares) / width + eps);
    along = over_row<Add>(along) / width * r * r;
    for (uint32_t i = threadIdx.x * V; real && i < width; i += blockDim.x * V) {
        float a[V], w[V], d[V], b[V] = {};
        load(x + i, a), load(weight + i, w), load(dy + i, d);
        if (add) load(add + i, b);
        for (int j = 0; j < V; j++) a[j] = r * (w[j] * d[j] - a[j] * along) + b[j];
        store(dx + i, a);
    }
}

// Each block sums its share of the rows into its own line of `parts` [blocks, width], which it clears first: no atomics, so
// that the same numbers come out every time.
template <typename T, int V>
__device__ void rms_norm_weight_gradient(const T* x, const T* dy, float* parts, uint32_t rows, uint32_t width, float eps) {
    parts += (size_t)blockIdx.x * width;
    for (uint32_t i = threadIdx.x * V; i < width; i += blockDim.x * V)
        for (int j = 0; j < V; j++) parts[i + j] = 0;
    for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *here = x + row * width, *gradient = dy + row * width;
        float squares = 0;
        for (uint32_t i = threadIdx.x * V; i < width; i += blockDim.x * V) {
            float a[V];
            load(here + i, a);
            for (int j = 0; j < V; j++) squares += a[j] * a[j];
        }
        float r = rsqrtf(over_row<Add>(squares) / width + eps);
        for (uint32_t i = threadIdx.x * V; i < width; i += blockDim.x * V) {
            float a[V], d[V];
            load(here + i, a), load(gradient + i, d);
            for (int j = 0; j < V; j++) parts[i + j] += a[j] * d[j] * r;
        }
    }
}

#define NORM(T) (const T* x, const T* weight, T* y, uint32_t rows, uint32_t width, float eps)
EXPORT(rms_norm, NORM, x, weight, y, rows, width, eps)
#define ADD_NORM(T) \
    (const T* x, const T* added, const T* weight, T* sum, T* y, uint32_t rows, uint32_t width, float eps)
EXPORT(add_rms_norm, ADD_NORM, x, added, weight, sum, y, rows, width, eps)
#define NORM_BACKWARD(T) \
    (const T* x, const T* weight, const T* dy, const T* add, T* dx, uint32_t rows, uint32_t width, float eps)
EXPORT(rms_norm_backward, NORM_BACKWARD, x, weight, dy, add, dx, rows, width, eps)
#define NORM_WEIGHT(T) (const T* x, const T* dy, float* parts, uint32_t rows, uint32_t width, float eps)
EXPORT(rms_norm_weight_gradient, NORM_WEIGHT, x, dy, parts, rows, width, eps)
