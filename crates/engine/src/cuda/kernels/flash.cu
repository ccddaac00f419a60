// Attention whose scores are never written out (FlashAttention-2, Dao 2023), and its gradient, over segments of a tree.
//
//   P = softmax(s Q Kᵀ)      out = P V      L = log₂ Σ exp₂(c Q Kᵀ), c = s log₂ e
//   dV = Pᵀ dout      dP = dout Vᵀ      dS = s P ∘ (dP − Δ), Δ = Σ dout ∘ out      dQ = dS K      dK = dSᵀ Q
//
// A segment is rows that follow one another and see the same keys, in runs of slots anywhere: a tree's branch sees runs of its trunk
// and then itself. Its keys are counted along its runs. A tile's lines are rows and, of each row, the query heads that share a key head:
// line m is row m / shared, head m mod shared. Everything is added up in a fixed order, so that the same numbers come out every time.
#include "tiles.cuh"

struct Segment {
    uint32_t row, rows, keys, run, runs;
    __device__ Segment(const uint32_t* all, uint32_t number) {
        all += (size_t)number * 5;
        row = all[0], rows = all[1], keys = all[2], run = all[3], runs = all[4];
    }
};

// Which keys a row sees: [start, end) along its segment's keys.
struct Mask {
    uint32_t causal, window;
    __device__ uint32_t end(const Segment& s, uint32_t row) const { return causal ? s.keys - s.rows + row + 1 : s.keys; }
    __device__ uint32_t start(const Segment& s, uint32_t row) const {
        uint32_t end = this->end(s, row);
        return causal && window && end > window ? end - window : 0;
    }
};

// Walks over keys [at, end) of a segment, at most `Most` of one run at a time.
template <int Most> struct Keys {
    const uint32_t* runs;
    uint32_t left, at, end;
    // The keys that were reached: their first slot, how many, and the first one's number.
    uint32_t slot, count, first;

    __device__ Keys(const uint32_t* all, const Segment& s, uint32_t from, uint32_t to)
        : runs(all + (size_t)s.run * 3), left(s.runs), at(from), end(to), slot(0), count(0), first(0) {}
    __device__ bool next() {
        while (left && runs[2] + runs[1] <= at) runs += 3, left--;
        if (!left || at >= end) return false;
        slot = runs[0] + (at - runs[2]);
        count = min(min((uint32_t)Most, runs[2] + runs[1] - at), end - at);
        first = at;
        at += count;
        return true;
    }
};

struct Heads {
    uint32_t query, key, shared, inverse;
    __device__ Heads(uint32_t query, uint32_t key) : query(query), key(key), shared(query / key), inverse(0xffffffffu / shared + 1) {}
    // line / shared, by a multiplication: exact while a segment has fewer than 2³² lines · shared. Its inverse of 1 would be 2³².
    __device__ uint32_t row(uint32_t line) const { return shared == 1 ? line : __umulhi(line, inverse); }
    // Where line `line` of key head `head` is among all rows' heads.
    __device__ size_t at(uint32_t first_row, uint32_t line, uint32_t head) const {
        uint32_t row = this->row(line);
        return (size_t)(first_row + row) * query + head * shared + line - row * shared;
    }
};

// Copies `Rows` rows of D numbers into a tile; `source(row)` is where a row lies, null for a row of zeros.
template <int D, int Rows, int Threads, typename Source> __device__ __forceinline__ void copy_tile(uint32_t tile, const bf16* any, Source source) {
    constexpr int CHUNKS = D / 8;
#pragma unroll
    for (int i = 0; i < Rows * CHUNKS / Threads; i++) {
        uint32_t at = threadIdx.x + i * Threads, row = at / CHUNKS, chunk = at % CHUNKS;
        const bf16* from = source(row);
        copy_chunk(chunk_at<D>(tile, row, chunk), (from ? from : any) + chunk * 8, from != nullptr);
    }
}

// Where line m of key head `head` of a segment lies in rows of query heads, null past the last.
__device__ __forceinline__ const bf16* line_at(const bf16* x, const Segment& s, const Heads& h, uint32_t head, uint32_t m, uint32_t dim) {
    if (m >= s.rows * h.shared) return nullptr;
    return x + h.at(s.row, m, head) * dim;
}

// Scores of 16 lines of `a` against the 8 · N rows of `b`: x = a bᵀ.
template <int D, int N> __device__ __forceinline__ void scores_of(float (&x)[N][4], uint32_t a, uint32_t row, uint32_t b) {
#pragma unroll
    for (int n = 0; n < N; n++) x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t left[4];
        left_factor<D>(left, a, row, 2 * k);
#pragma unroll
        for (int n = 0; n < N / 2; n++) {
            uint32_t right[4];
            right_rows<D>(right, b, 16 * n, 2 * k);
            multiply(x[2 * n], left, right[0], right[1]);
            multiply(x[2 * n + 1], left, right[2], right[3]);
        }
    }
}

// out += x b, x being rounded, over the 8 · N rows of `b`.
template <int D, int N> __device__ __forceinline__ void add_product(float (&out)[D / 8][4], const float (&x)[N][4], uint32_t b) {
#pragma unroll
    for (int k = 0; k < N / 2; k++) {
        uint32_t left[4];
        as_left(left, x[2 * k], x[2 * k + 1]);
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t right[4];
            right_columns<D>(right, b, 16 * k, 2 * d);
            multiply(out[2 * d], left, right[0], right[1]);
            multiply(out[2 * d + 1], left, right[2], right[3]);
        }
    }
}

constexpr int WARPS = 4, THREADS = 32 * WARPS;
// Keys of a tile, and lines of a tile of the gradients; lines of a tile forward.
constexpr int KEYS = 64, LINES = 64, FORWARD_LINES = 128;

// out and L of a tile of lines. `tiles` has segment and first line of each.
template <int D>
__device__ void attend(const bf16* q, const bf16* k, const bf16* v, bf16* out, float* sums, const uint32_t* tiles, const uint32_t* segments,
                       const uint32_t* runs, uint32_t query_heads, uint32_t key_heads, uint32_t causal, uint32_t window, float scale) {
    // Sixteens of lines of each warp.
    constexpr int M = FORWARD_LINES / WARPS / 16, N = KEYS / 8;
    extern __shared__ __align__(128) uint8_t memory[];
    uint32_t q_tile = shared_address(memory), k_tiles = q_tile + FORWARD_LINES * D * 2, v_tiles = k_tiles + 2 * KEYS * D * 2;
    Heads h(query_heads, key_heads);
    Mask mask{causal, window};
    uint32_t tile = blockIdx.x / h.key, head = blockIdx.x % h.key;
    Segment s(segments, tiles[2 * tile]);
    uint32_t first_line = tiles[2 * tile + 1], lines = s.rows * h.shared;
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t first_row = h.row(first_line), last_row = h.row(min(first_line + FORWARD_LINES, lines) - 1);

    // What this thread's lines see.
    uint32_t start[M][2], end[M][2];
    float most[M][2], sum[M][2], total[M][D / 8][4];
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t line = first_line + (warp * M + m) * 16 + g + 8 * half;
            bool real = line < lines;
            start[m][half] = real ? mask.start(s, h.row(line)) : 0;
            end[m][half] = real ? mask.end(s, h.row(line)) : 0;
            most[m][half] = -INFINITY, sum[m][half] = 0;
        }
#pragma unroll
        for (int d = 0; d < D / 8; d++) total[m][d][0] = total[m][d][1] = total[m][d][2] = total[m][d][3] = 0;
    }

    copy_tile<D, FORWARD_LINES, THREADS>(q_tile, q, [&](uint32_t row) { return line_at(q, s, h, head, first_line + row, D); });
    Keys<KEYS> keys(runs, s, mask.start(s, first_row), mask.end(s, last_row));
    auto fetch = [&](uint32_t stage) {
        auto at = [&](const bf16* x) {
            return [&, x](uint32_t row) { return row < keys.count ? x + ((size_t)(keys.slot + row) * h.key + head) * D : nullptr; };
        };
        copy_tile<D, KEYS, THREADS>(k_tiles + stage * KEYS * D * 2, k, at(k));
        copy_tile<D, KEYS, THREADS>(v_tiles + stage * KEYS * D * 2, v, at(v));
    };
    bool more = keys.next();
    if (more) fetch(0);
    copies_started();
    // Every row sees them all, and there is no end among them.
    uint32_t all_from = mask.start(s, last_row), all_to = mask.end(s, first_row);
    for (uint32_t stage = 0; more; stage ^= 1) {
        uint32_t first = keys.first, count = keys.count;
        more = keys.next();
        if (more) fetch(stage ^ 1);
        copies_started();
        copies_done<1>();
        __syncthreads();
        uint32_t k_tile = k_tiles + stage * KEYS * D * 2, v_tile = v_tiles + stage * KEYS * D * 2;
        bool whole = count == KEYS && first >= all_from && first + KEYS <= all_to;
        float x[M][N][4];
        // The sixteens of a warp share what is read of the keys.
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++) x[m][n][0] = x[m][n][1] = x[m][n][2] = x[m][n][3] = 0;
#pragma unroll
        for (int c = 0; c < D / 16; c++) {
            uint32_t left[M][4];
#pragma unroll
            for (int m = 0; m < M; m++) left_factor<D>(left[m], q_tile, (warp * M + m) * 16, 2 * c);
#pragma unroll
            for (int n = 0; n < N / 2; n++) {
                uint32_t right[4];
                right_rows<D>(right, k_tile, 16 * n, 2 * c);
#pragma unroll
                for (int m = 0; m < M; m++) {
                    multiply(x[m][2 * n], left[m], right[0], right[1]);
                    multiply(x[m][2 * n + 1], left[m], right[2], right[3]);
                }
            }
        }
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float larger = most[m][half];
                if (!whole) {
#pragma unroll
                    for (int n = 0; n < N; n++)
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            uint32_t within = 8 * n + 2 * t + j, key = first + within;
                            if (within >= count || key < start[m][half] || key >= end[m][half]) x[m][n][2 * half + j] = -INFINITY;
                        }
                }
#pragma unroll
                for (int n = 0; n < N; n++) larger = fmaxf(larger, fmaxf(x[m][n][2 * half], x[m][n][2 * half + 1]));
                larger = fmaxf(larger, __shfl_xor_sync(0xffffffffu, larger, 1));
                larger = fmaxf(larger, __shfl_xor_sync(0xffffffffu, larger, 2));
                float top = larger == -INFINITY ? 0.0f : larger * scale, kept = power_of_two(most[m][half] * scale - top);
                most[m][half] = larger;
                float added = 0;
#pragma unroll
                for (int n = 0; n < N; n++)
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        float& score = x[m][n][2 * half + j];
                        score = power_of_two(score * scale - top);
                        added += score;
                    }
                sum[m][half] = sum[m][half] * kept + added;
#pragma unroll
                for (int d = 0; d < D / 8; d++) total[m][d][2 * half] *= kept, total[m][d][2 * half + 1] *= kept;
            }
#pragma unroll
        for (int c = 0; c < N / 2; c++) {
            uint32_t left[M][4];
#pragma unroll
            for (int m = 0; m < M; m++) as_left(left[m], x[m][2 * c], x[m][2 * c + 1]);
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                uint32_t right[4];
                right_columns<D>(right, v_tile, 16 * c, 2 * d);
#pragma unroll
                for (int m = 0; m < M; m++) {
                    multiply(total[m][2 * d], left[m], right[0], right[1]);
                    multiply(total[m][2 * d + 1], left[m], right[2], right[3]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float all = sum[m][half];
            all += __shfl_xor_sync(0xffffffffu, all, 1);
            all += __shfl_xor_sync(0xffffffffu, all, 2);
            uint32_t line = first_line + (warp * M + m) * 16 + g + 8 * half;
            if (line >= lines) continue;
            size_t at = h.at(s.row, line, head);
            if (t == 0) sums[at] = most[m][half] * scale + log2f(all);
            float share = all > 0 ? 1.0f / all : 0.0f;
#pragma unroll
            for (int d = 0; d < D / 8; d++) {
                uint32_t both = pair(total[m][d][2 * half] * share, total[m][d][2 * half + 1] * share);
                *reinterpret_cast<uint32_t*>(out + at * D + 8 * d + 2 * t) = both;
            }
        }
}

// Δ of every row and head, `lines` of them: a warp for each.
template <int D> __device__ void delta(const bf16* out, const bf16* dout, float* y, uint32_t lines) {
    uint32_t line = blockIdx.x * blockDim.y + threadIdx.y;
    if (line >= lines) return;
    float a[D / 32], b[D / 32], sum = 0;
    load(out + (size_t)line * D + threadIdx.x * (D / 32), a), load(dout + (size_t)line * D + threadIdx.x * (D / 32), b);
#pragma unroll
    for (int j = 0; j < D / 32; j++) sum += a[j] * b[j];
    sum = over_warp<Add>(sum);
    if (threadIdx.x == 0) y[line] = sum;
}

// dQ of half a tile of lines, of the tiles of `attend`.
template <int D>
__device__ void query_gradient(const bf16* q, const bf16* k, const bf16* v, const bf16* dout, const float* sums, const float* deltas, bf16* dq,
                               const uint32_t* tiles, const uint32_t* segments, const uint32_t* runs, uint32_t query_heads, uint32_t key_heads,
                               uint32_t causal, uint32_t window, float scale, float plain_scale) {
    constexpr int N = KEYS / 8;
    extern __shared__ __align__(128) uint8_t memory[];
    uint32_t q_tile = shared_address(memory), o_tile = q_tile + LINES * D * 2;
    uint32_t k_tiles = o_tile + LINES * D * 2, v_tiles = k_tiles + 2 * KEYS * D * 2;
    Heads h(query_heads, key_heads);
    Mask mask{causal, window};
    uint32_t part = blockIdx.x / h.key, head = blockIdx.x % h.key, tile = part / 2;
    Segment s(segments, tiles[2 * tile]);
    uint32_t first_line = tiles[2 * tile + 1] + part % 2 * LINES, lines = s.rows * h.shared;
    if (first_line >= lines) return;
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t first_row = h.row(first_line), last_row = h.row(min(first_line + LINES, lines) - 1);

    uint32_t start[2], end[2];
    float above[2], along[2], total[D / 8][4];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t line = first_line + warp * 16 + g + 8 * half;
        bool real = line < lines;
        size_t at = real ? h.at(s.row, line, head) : 0;
        start[half] = real ? mask.start(s, h.row(line)) : 0;
        end[half] = real ? mask.end(s, h.row(line)) : 0;
        above[half] = sums[at], along[half] = deltas[at];
    }
#pragma unroll
    for (int d = 0; d < D / 8; d++) total[d][0] = total[d][1] = total[d][2] = total[d][3] = 0;

    copy_tile<D, LINES, THREADS>(q_tile, q, [&](uint32_t row) { return line_at(q, s, h, head, first_line + row, D); });
    copy_tile<D, LINES, THREADS>(o_tile, dout, [&](uint32_t row) { return line_at(dout, s, h, head, first_line + row, D); });
    Keys<KEYS> keys(runs, s, mask.start(s, first_row), mask.end(s, last_row));
    auto fetch = [&](uint32_t stage) {
        auto at = [&](const bf16* x) {
            return [&, x](uint32_t row) { return row < keys.count ? x + ((size_t)(keys.slot + row) * h.key + head) * D : nullptr; };
        };
        copy_tile<D, KEYS, THREADS>(k_tiles + stage * KEYS * D * 2, k, at(k));
        copy_tile<D, KEYS, THREADS>(v_tiles + stage * KEYS * D * 2, v, at(v));
    };
    bool more = keys.next();
    if (more) fetch(0);
    copies_started();
    uint32_t all_from = mask.start(s, last_row), all_to = mask.end(s, first_row);
    for (uint32_t stage = 0; more; stage ^= 1) {
        uint32_t first = keys.first, count = keys.count;
        more = keys.next();
        if (more) fetch(stage ^ 1);
        copies_started();
        copies_done<1>();
        __syncthreads();
        uint32_t k_tile = k_tiles + stage * KEYS * D * 2, v_tile = v_tiles + stage * KEYS * D * 2;
        bool whole = count == KEYS && first >= all_from && first + KEYS <= all_to;
        float x[N][4], y[N][4];
        scores_of<D, N>(x, q_tile, warp * 16, k_tile);
        scores_of<D, N>(y, o_tile, warp * 16, v_tile);
        auto slopes = [&](auto seen) {
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float weight = seen(8 * n + 2 * t + j % 2, j / 2) ? power_of_two(x[n][j] * scale - above[j / 2]) : 0.0f;
                    x[n][j] = weight * (y[n][j] - along[j / 2]);
                }
        };
        if (whole) slopes([](uint32_t, int) { return true; });
        else
            slopes([&](uint32_t within, int half) {
                return within < count && first + within >= start[half] && first + within < end[half];
            });
        add_product<D, N>(total, x, k_tile);
        __syncthreads();
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t line = first_line + warp * 16 + g + 8 * half;
        if (line >= lines) continue;
        size_t at = h.at(s.row, line, head);
#pragma unroll
        for (int d = 0; d < D / 8; d++)
            *reinterpret_cast<uint32_t*>(dq + at * D + 8 * d + 2 * t) = pair(plain_scale * total[d][2 * half], plain_scale * total[d][2 * half + 1]);
    }
}

// dK and dV of a tile of keys. `tiles` has first slot, number of slots, first reader and number of readers of each; a reader is a
// segment, the first of the tile's slots that it sees, how many, and the first one's number among its keys.
template <int D>
__device__ void key_gradients(const bf16* q, const bf16* k, const bf16* v, const bf16* dout, const float* sums, const float* deltas, bf16* dk,
                              bf16* dv, const uint32_t* tiles, const uint32_t* readers, const uint32_t* segments, uint32_t query_heads,
                              uint32_t key_heads, uint32_t causal, uint32_t window, float scale, float plain_scale) {
    constexpr int N = LINES / 8;
    extern __shared__ __align__(128) uint8_t memory[];
    uint32_t k_tile = shared_address(memory), v_tile = k_tile + KEYS * D * 2;
    uint32_t q_tiles = v_tile + KEYS * D * 2, o_tiles = q_tiles + 2 * LINES * D * 2;
    __shared__ __align__(16) float above[2][LINES], along[2][LINES];
    __shared__ uint32_t start[2][LINES], end[2][LINES];
    Heads h(query_heads, key_heads);
    Mask mask{causal, window};
    uint32_t head = blockIdx.x % h.key;
    const uint32_t* tile = tiles + (size_t)(blockIdx.x / h.key) * 4;
    uint32_t slot = tile[0], slots = tile[1], reader = tile[2], last_reader = tile[2] + tile[3];
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float dk_total[D / 8][4], dv_total[D / 8][4];
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int j = 0; j < 4; j++) dk_total[d][j] = dv_total[d][j] = 0;
    auto key_at = [&](const bf16* x) {
        return [&, x](uint32_t row) { return row < slots ? x + ((size_t)(slot + row) * h.key + head) * D : nullptr; };
    };
    copy_tile<D, KEYS, THREADS>(k_tile, k, key_at(k));
    copy_tile<D, KEYS, THREADS>(v_tile, v, key_at(v));

    // Where the walk over readers and their lines stands.
    struct Place {
        uint32_t segment, from, count, key, line, last_line;
    } place{0, 0, 0, 0, 0, 0};
    auto next = [&]() {
        place.line += LINES;
        while (place.line >= place.last_line) {
            if (reader == last_reader) return false;
            const uint32_t* entry = readers + (size_t)reader++ * 4;
            place.segment = entry[0], place.from = entry[1], place.count = entry[2], place.key = entry[3];
            Segment s(segments, place.segment);
            // The rows that see its first key, and where a window ends them, its last.
            uint32_t before = s.keys - s.rows, rows = s.rows, row = 0;
            if (mask.causal) {
                row = place.key > before ? place.key - before : 0;
                if (mask.window) {
                    uint32_t past = place.key + place.count + mask.window - 1;
                    rows = past > before ? min(rows, past - before) : 0;
                }
            }
            place.line = row * h.shared, place.last_line = rows * h.shared;
        }
        return true;
    };
    auto fetch = [&](uint32_t stage) {
        Segment s(segments, place.segment);
        auto at = [&](const bf16* x) { return [&, x](uint32_t row) { return line_at(x, s, h, head, place.line + row, D); }; };
        copy_tile<D, LINES, THREADS>(q_tiles + stage * LINES * D * 2, q, at(q));
        copy_tile<D, LINES, THREADS>(o_tiles + stage * LINES * D * 2, dout, at(dout));
        if (threadIdx.x < LINES) {
            uint32_t line = place.line + threadIdx.x, row = h.row(line);
            bool real = row < s.rows;
            size_t index = real ? h.at(s.row, line, head) : 0;
            copy_number(&above[stage][threadIdx.x], sums + index, real);
            copy_number(&along[stage][threadIdx.x], deltas + index, real);
            start[stage][threadIdx.x] = real ? mask.start(s, row) : 0;
            end[stage][threadIdx.x] = real ? mask.end(s, row) : 0;
        }
    };
    bool more = next();
    if (more) fetch(0);
    copies_started();
    for (uint32_t stage = 0; more; stage ^= 1) {
        Place here = place;
        more = next();
        if (more) fetch(stage ^ 1);
        copies_started();
        copies_done<1>();
        __syncthreads();
        uint32_t q_tile = q_tiles + stage * LINES * D * 2, o_tile = o_tiles + stage * LINES * D * 2;
        // All lines see all of the tile's slots.
        bool whole = here.count == KEYS && end[stage][0] >= here.key + KEYS && start[stage][LINES - 1] <= here.key &&
                     end[stage][LINES - 1] >= here.key + KEYS;
        float x[N][4], y[N][4];
        scores_of<D, N>(x, k_tile, warp * 16, q_tile);
        scores_of<D, N>(y, v_tile, warp * 16, o_tile);
        auto slopes = [&](auto seen) {
#pragma unroll
            for (int n = 0; n < N; n++) {
                float2 over = *reinterpret_cast<const float2*>(&above[stage][8 * n + 2 * t]);
                float2 beside = *reinterpret_cast<const float2*>(&along[stage][8 * n + 2 * t]);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    bool real = seen(8 * n + 2 * t + j % 2, j / 2);
                    float weight = real ? power_of_two(x[n][j] * scale - (j % 2 ? over.y : over.x)) : 0.0f;
                    x[n][j] = weight;
                    y[n][j] = weight * (y[n][j] - (j % 2 ? beside.y : beside.x));
                }
            }
        };
        if (whole) slopes([](uint32_t, int) { return true; });
        else
            slopes([&](uint32_t line, int half) {
                uint32_t within = slot + warp * 16 + g + half * 8 - here.from, key = here.key + within;
                return within < here.count && key >= start[stage][line] && key < end[stage][line];
            });
        add_product<D, N>(dv_total, x, o_tile);
        add_product<D, N>(dk_total, y, q_tile);
        __syncthreads();
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t row = warp * 16 + g + 8 * half;
        if (row >= slots) continue;
        size_t at = ((size_t)(slot + row) * h.key + head) * D;
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            *reinterpret_cast<uint32_t*>(dk + at + 8 * d + 2 * t) =
                pair(plain_scale * dk_total[d][2 * half], plain_scale * dk_total[d][2 * half + 1]);
            *reinterpret_cast<uint32_t*>(dv + at + 8 * d + 2 * t) = pair(dv_total[d][2 * half], dv_total[d][2 * half + 1]);
        }
    }
}

#define WIDTHS(D)                                                                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) flash_##D(                                                                       \
        const bf16* q, const bf16* k, const bf16* v, bf16* out, float* sums, const uint32_t* tiles, const uint32_t* segments,                 \
        const uint32_t* runs, uint32_t heads, uint32_t key_heads, uint32_t causal, uint32_t window, float scale) {                            \
        attend<D>(q, k, v, out, sums, tiles, segments, runs, heads, key_heads, causal, window, scale);                                        \
    }                                                                                                                                         \
    extern "C" __global__ void flash_delta_##D(const bf16* out, const bf16* dout, float* y, uint32_t lines) { delta<D>(out, dout, y, lines); } \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) flash_query_gradient_##D(                                                        \
        const bf16* q, const bf16* k, const bf16* v, const bf16* dout, const float* sums, const float* deltas, bf16* dq,                      \
        const uint32_t* tiles, const uint32_t* segments, const uint32_t* runs, uint32_t heads, uint32_t key_heads, uint32_t causal,           \
        uint32_t window, float scale, float plain) {                                                                                          \
        query_gradient<D>(q, k, v, dout, sums, deltas, dq, tiles, segments, runs, heads, key_heads, causal, window, scale, plain);            \
    }                                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) flash_key_gradients_##D(                                                         \
        const bf16* q, const bf16* k, const bf16* v, const bf16* dout, const float* sums, const float* deltas, bf16* dk, bf16* dv,            \
        const uint32_t* tiles, const uint32_t* readers, const uint32_t* segments, uint32_t heads, uint32_t key_heads, uint32_t causal,        \
        uint32_t window, float scale, float plain) {                                                                                          \
        key_gradients<D>(q, k, v, dout, sums, deltas, dk, dv, tiles, readers, segments, heads, key_heads, causal, window, scale, plain);      \
    }
WIDTHS(64)
WIDTHS(128)
