// Attention of one new token a sequence over its cache: q [batch, heads, DIM], k and v [batch, kv_heads, context, DIM].
// A block takes up to GROUP query heads of one key/value head and one part of the context; LANES_A_KEY threads share a
// key, each with 16 of its elements. Every such team keeps its own running softmax; teams, then parts, are merged.
#define DIM 128
#define GROUP 4
#define LANES_A_KEY (DIM / 16)
#define THREADS 128
#define TEAMS (THREADS / LANES_A_KEY)

// partial: [batch * heads][parts][DIM + 2], fp32: the weighted sum, the greatest score, the sum of weights.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_parts(float* partial, const T* q, const T* k, const T* v, u32 heads, u32 kv_heads, u32 context,
                 float scale) {
    __shared__ float shared_top[TEAMS][GROUP], shared_sum[TEAMS][GROUP], shared_out[TEAMS][DIM];
    u32 share = heads / kv_heads, chunks = (share + GROUP - 1) / GROUP;
    u32 kv = blockIdx.y / chunks, first = blockIdx.y % chunks * GROUP, parts = gridDim.x;
    u32 mine = min(GROUP, share - first);
    u32 head = kv % kv_heads * share + first;
    u64 row = (u64)(kv / kv_heads) * heads + head;
    u32 lane = threadIdx.x % LANES_A_KEY, team = threadIdx.x / LANES_A_KEY;
    float query[GROUP][16], out[GROUP][16], top[GROUP], sum[GROUP];
    for (int g = 0; g < GROUP; g++) {
        top[g] = -1e30f;
        sum[g] = 0.0f;
        const T* from = q + (row + min((u32)g, mine - 1)) * DIM + lane * 16;
#pragma unroll
        for (int d = 0; d < 16; d++) {
            query[g][d] = to_float(from[d]) * scale;
            out[g][d] = 0.0f;
        }
    }
    u32 length = (context + parts - 1) / parts;
    u32 begin = blockIdx.x * length, end = min(begin + length, context);
    // All threads of a warp go round equally often: the exchange between lanes needs them.
    for (u32 base = begin; base < end; base += TEAMS) {
        u32 key = base + team;
        bool valid = key < end;
        u64 at = ((u64)kv * context + (valid ? key : begin)) * DIM + lane * 16;
        T keys[16], values[16];
#pragma unroll
        for (int p = 0; p < 16 / LANES; p++) {
            *reinterpret_cast<Pack*>(keys + p * LANES) = load_pack(k + at + p * LANES);
            *reinterpret_cast<Pack*>(values + p * LANES) = load_pack(v + at + p * LANES);
        }
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float score = 0.0f;
#pragma unroll
            for (int d = 0; d < 16; d++) score += query[g][d] * to_float(keys[d]);
#pragma unroll
            for (int d = LANES_A_KEY / 2; d; d /= 2) score += __shfl_xor_sync(~0u, score, d);
            if (!valid) score = -1e30f;
            float most = fmaxf(top[g], score);
            float keep = __expf(top[g] - most), weight = valid ? __expf(score - most) : 0.0f;
            top[g] = most;
            sum[g] = sum[g] * keep + weight;
#pragma unroll
            for (int d = 0; d < 16; d++) out[g][d] = out[g][d] * keep + weight * to_float(values[d]);
        }
    }
    if (lane == 0) {
        for (int g = 0; g < GROUP; g++) {
            shared_top[team][g] = top[g];
            shared_sum[team][g] = sum[g];
        }
    }
    __syncthreads();
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        if (g >= mine) break;
        float most = -1e30f, total = 0.0f;
        for (int t = 0; t < TEAMS; t++) most = fmaxf(most, shared_top[t][g]);
        for (int t = 0; t < TEAMS; t++) total += shared_sum[t][g] * __expf(shared_top[t][g] - most);
        float keep = __expf(top[g] - most);
#pragma unroll
        for (int d = 0; d < 16; d++) shared_out[team][lane * 16 + d] = out[g][d] * keep;
        __syncthreads();
        float* to = partial + ((row + g) * parts + blockIdx.x) * (DIM + 2);
        float all = 0.0f;
        for (int t = 0; t < TEAMS; t++) all += shared_out[t][threadIdx.x];
        to[threadIdx.x] = all;
        if (threadIdx.x == 0) {
            to[DIM] = most;
            to[DIM + 1] = total;
        }
        __syncthreads();
    }
}

// A block of DIM threads merges the parts of one head.
extern "C" __global__ void decode_merge(T* out, const float* partial, u32 parts) {
    const float* from = partial + (u64)blockIdx.x * parts * (DIM + 2);
    float most = -1e30f, total = 0.0f, all = 0.0f;
    for (u32 p = 0; p < parts; p++) most = fmaxf(most, from[p * (DIM + 2) + DIM]);
    for (u32 p = 0; p < parts; p++) {
        float keep = __expf(from[p * (DIM + 2) + DIM] - most);
        total += from[p * (DIM + 2) + DIM + 1] * keep;
        all += from[p * (DIM + 2) + threadIdx.x] * keep;
    }
    out[(u64)blockIdx.x * DIM + threadIdx.x] = from_float(all / total);
}
