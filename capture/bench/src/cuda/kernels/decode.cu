// Attention of one new token a sequence over its cache: q [batch, heads, DIM], k and v [batch, kv_heads, context, DIM].
// A block takes up to GROUP query heads of one key/value head and one part of the context; LANES_A_KEY threads share a
// key, each with OWN of its elements. Every such team keeps its own running softmax. A warp a head merges the block's teams,
// and the last such warp of a head to arrive its parts: in one launch, for a second costs more than a short context.
#define DIM 128
#define GROUP 4
#define LANES_A_KEY 8
#define OWN (DIM / LANES_A_KEY)
#define PACKS (OWN / LANES)
#define WARP 32
#define THREADS (GROUP * WARP)
#define TEAMS (THREADS / LANES_A_KEY)

// The greatest score of some keys, and the sum of their weights relative to it.
struct Softmax {
    float top, sum;
};

// What a lane has of a key and its value.
struct Key {
    Pack key[PACKS], value[PACKS];
};

// Where a lane's elements of pack p begin in a head.
__device__ __forceinline__ u32 pack_at(u32 lane, u32 p) { return (p * LANES_A_KEY + lane) * LANES; }

__device__ __forceinline__ Key load_key(const T* k, const T* v, u64 row, u32 lane) {
    Key loaded;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        loaded.key[p] = load_pack(k + row * DIM + pack_at(lane, p));
        loaded.value[p] = load_pack(v + row * DIM + pack_at(lane, p));
    }
    return loaded;
}

// A warp merges running softmaxes and their weighted sums [count, DIM]; each lane answers with four elements.
__device__ __forceinline__ Softmax merge(float4& out, const float* sums, const Softmax* softmax, u32 count) {
    u32 lane = threadIdx.x % WARP;
    Softmax all = {-1e30f, 0.0f};
    out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (u32 base = 0; base < count; base += WARP) {
        u32 here = min(count - base, WARP);
        Softmax own = lane < here ? softmax[base + lane] : Softmax{-1e30f, 0.0f};
        float top = fmaxf(all.top, own.top);
        for (int d = WARP / 2; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
        float keep = __expf(all.top - top), weight = __expf(own.top - top), sum = own.sum * weight;
        for (int d = WARP / 2; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
        all = {top, all.sum * keep + sum};
        out = make_float4(out.x * keep, out.y * keep, out.z * keep, out.w * keep);
#pragma unroll 16
        for (u32 i = 0; i < here; i++) {
            float4 x = *reinterpret_cast<const float4*>(sums + (u64)(base + i) * DIM + lane * 4);
            float w = __shfl_sync(~0u, weight, i);
            out.x += x.x * w, out.y += x.y * w, out.z += x.z * w, out.w += x.w * w;
        }
    }
    return all;
}

// part_sums: [batch * heads, parts, DIM], fp32, and part_softmax: [batch * heads, parts], of each part. arrived:
// [batch * heads], zeros, which every launch leaves behind again.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode(T* result, float* part_sums, Softmax* part_softmax, u32* arrived, const T* q, const T* k, const T* v,
           u32 heads, u32 kv_heads, u32 context, float scale) {
    __shared__ Softmax softmax[GROUP][TEAMS];
    __shared__ float4 sums[GROUP][TEAMS][DIM / 4];
    u32 share = heads / kv_heads, chunks = (share + GROUP - 1) / GROUP;
    u32 kv = blockIdx.y / chunks, first = blockIdx.y % chunks * GROUP, parts = gridDim.x;
    u32 mine = min(GROUP, share - first);
    u64 row = (u64)(kv / kv_heads) * heads + kv % kv_heads * share + first;
    u32 lane = threadIdx.x % LANES_A_KEY, team = threadIdx.x / LANES_A_KEY;
    float query[GROUP][OWN], out[GROUP][OWN];
    Softmax own[GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        own[g] = {-1e30f, 0.0f};
        const T* from = q + (row + min((u32)g, mine - 1)) * DIM;
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            Pack pack = load_pack(from + pack_at(lane, p));
#pragma unroll
            for (int e = 0; e < LANES; e++) {
                query[g][p * LANES + e] = to_float(pack.lane[e]) * scale;
                out[g][p * LANES + e] = 0.0f;
            }
        }
    }
    u32 length = (context + parts - 1) / parts;
    u32 begin = blockIdx.x * length, end = min(begin + length, context);
    // All threads of a warp go round equally often: the exchange between lanes needs them. Each loads its next key before it
    // works on this one; beyond the end, the last.
    u64 keys = (u64)kv * context;
    Key next = load_key(k, v, keys + min(begin + team, end - 1), lane);
    for (u32 base = begin; base < end; base += TEAMS) {
        bool valid = base + team < end;
        Key now = next;
        next = load_key(k, v, keys + min(base + TEAMS + team, end - 1), lane);
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float score = 0.0f;
#pragma unroll
            for (int d = 0; d < OWN; d++) score += query[g][d] * to_float(now.key[d / LANES].lane[d % LANES]);
#pragma unroll
            for (int d = LANES_A_KEY / 2; d; d /= 2) score += __shfl_xor_sync(~0u, score, d);
            if (!valid) score = -1e30f;
            float top = fmaxf(own[g].top, score);
            float keep = __expf(own[g].top - top), weight = valid ? __expf(score - top) : 0.0f;
            own[g] = {top, own[g].sum * keep + weight};
#pragma unroll
            for (int d = 0; d < OWN; d++)
                out[g][d] = out[g][d] * keep + weight * to_float(now.value[d / LANES].lane[d % LANES]);
        }
    }
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        if (lane == 0) softmax[g][team] = own[g];
#pragma unroll
        for (int d = 0; d < OWN; d += 4)
            sums[g][team][(pack_at(lane, d / LANES) + d % LANES) / 4] =
                make_float4(out[g][d], out[g][d + 1], out[g][d + 2], out[g][d + 3]);
    }
    __syncthreads();
    u32 g = threadIdx.x / WARP, of_warp = threadIdx.x % WARP;
    if (g >= mine) return;
    row += g;
    float* row_sums = part_sums + row * parts * DIM;
    Softmax* row_softmax = part_softmax + row * parts;
    float4 all;
    Softmax total = merge(all, reinterpret_cast<const float*>(sums[g]), softmax[g], TEAMS);
    *reinterpret_cast<float4*>(row_sums + (u64)blockIdx.x * DIM + of_warp * 4) = all;
    if (of_warp == 0) row_softmax[blockIdx.x] = total;
    // What this warp wrote is seen by whoever sees that it arrived.
    __threadfence();
    __syncwarp();
    u32 before = of_warp == 0 ? atomicInc(arrived + row, parts - 1) : 0;
    if (__shfl_sync(~0u, before, 0) != parts - 1) return;
    __threadfence();
    total = merge(all, row_sums, row_softmax, parts);
    T* to = result + row * DIM + of_warp * 4;
    to[0] = from_float(all.x / total.sum), to[1] = from_float(all.y / total.sum);
    to[2] = from_float(all.z / total.sum), to[3] = from_float(all.w / total.sum);
}
