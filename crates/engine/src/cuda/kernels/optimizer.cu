// One step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) on f32 numbers, and the sum of squares for clipping.
//
//   m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²      x ← x (1 − lr λ) − lr (m / b₁) / (√(v / b₂) + ε)
#include "rows.cuh"

extern "C" __global__ void adamw(float* x, float* m, float* v, const float* g, size_t count, float lr, float beta1,
                                 float beta2, float eps, float decay, float correction1, float correction2) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float gradient = g[i];
    float mean = beta1 * m[i] + (1.0f - beta1) * gradient;
    float square = beta2 * v[i] + (1.0f - beta2) * gradient * gradient;
    m[i] = mean, v[i] = square;
    x[i] = x[i] * (1.0f - lr * decay) - lr * (mean / correction1) / (sqrtf(square / correction2) + eps);
}

// Each block leaves the sum of its share in `parts`.
extern "C" __global__ void sum_of_squares(const float* x, float* parts, size_t count) {
    float sum = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        sum += x[i] * x[i];
    sum = over_row<Add>(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
