// Log-probabilities of one token per row, and their gradient, over logits [rows, vocabulary]: a block per row.
//
//   y = x[t] − log Σ exp x        dx = c (onehot(t) − softmax x)
#include "rows.cuh"

// log Σ exp over a row, in one pass with a running maximum.
template <typename T, int V> __device__ float log_sum_exp(const T* x, uint32_t width) {
    float most = -INFINITY, sum = 0;
    for (uint32_t i = threadIdx.x * V; i < width; i += blockDim.x * V) {
        float a[V], local = -INFINITY;
        load(x + i, a);
        for (int j = 0; j < V; j++) local = fmaxf(local, a[j]);
        // Tokens that are ruled out have −∞.
        if (local == -INFINITY) continue;
        if (local > most) sum *= __expf(most - local), most = local;
        for (int j = 0; j < V; j++) sum += __expf(a[j] - most);
    }
    float highest = over_row<Max>(most);
    // A thread without a number of its own has nothing to add.
    float share = most == -INFINITY ? 0.0f : sum * __expf(most - highest);
    return highest + logf(over_row<Add>(share));
}

template <typename T, int V>
__device__ void token_logprobs(const T* logits, const uint32_t* targets, float* y, uint32_t width) {
    size_t row = blockIdx.x;
    logits += row * width;
    float all = log_sum_exp<T, V>(logits, width);
    uint32_t target = targets[row];
    if (threadIdx.x == 0) y[row] = target < width ? widen(logits[target]) - all : NAN;
}

template <typename T, int V>
__device__ void token_logprobs_backward(T* logits, const uint32_t* targets, const float* coefficients, uint32_t width) {
    size_t row = blockIdx.x;
    logits += row * width;
    float all = log_sum_exp<T, V>(logits, width), c = coefficients[row];
    uint32_t target = targets[row];
    for (uint32_t i = threadIdx.x * V; i < width; i += blockDim.x * V) {
        float a[V];
        load(logits + i, a);
        for (int j = 0; j < V; j++) a[j] = c * ((i + j == target ? 1.0f : 0.0f) - __expf(a[j] - all));
        store(logits + i, a);
    }
}

#define LOGPROBS(T) (const T* logits, const uint32_t* targets, float* y, uint32_t width)
EXPORT(token_logprobs, LOGPROBS, logits, targets, y, width)
#define LOGPROBS_BACKWARD(T) (T* logits, const uint32_t* targets, const float* coefficients, uint32_t width)
EXPORT(token_logprobs_backward, LOGPROBS_BACKWARD, logits, targets, coefficients, width)
