// Causal attention of whole sequences on tensor cores (compute capability 8.0 and newer; bf16 and fp16), with a running
// softmax over tiles of keys. q and out are [batch, heads, length, DIM], k and v [batch, kv_heads, length, DIM].
// A block of four warps takes 64 queries of one head, a warp 16 of them. While it multiplies by one tile, the next is
// copied to shared memory. Fragments are laid out as PTX defines them for mma.m16n8k16: lane = 4 * group + pair.
#define DIM 128
#define TILE 64
#define STRIDE (DIM + 8) // in elements: eight rows lie in distinct banks
#if defined(FP16)
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define TO_PAIR "cvt.rn.f16x2.f32 %0, %1, %2;"
#elif defined(BF16)
#define MMA "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define TO_PAIR "cvt.rn.bf16x2.f32 %0, %1, %2;"
#endif

__device__ __forceinline__ u32 pair(float low, float high) {
    u32 both;
    asm(TO_PAIR : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ __forceinline__ void mma(float* c, const u32* a, u32 b0, u32 b1) {
    asm volatile(MMA " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

// Starts to copy TILE rows from `first` on; rows beyond `length` become zero.
__device__ __forceinline__ void copy_tile(T (*tile)[STRIDE], const T* from, u32 first, u32 length) {
#pragma unroll
    for (int i = 0; i < TILE * DIM / LANES / 128; i++) {
        u32 at = i * 128 + threadIdx.x, row = at / (DIM / LANES), column = at % (DIM / LANES) * LANES;
        bool inside = first + row < length;
        const T* source = from + (u64)(inside ? first + row : 0) * DIM + column;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(&tile[row][column])),
                     "l"(source), "r"(inside ? 16 : 0));
    }
    asm volatile("cp.async.commit_group;");
}

__device__ __forceinline__ void copies_done() {
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(128)
    prefill(T* out, const T* q, const T* k, const T* v, u32 heads, u32 kv_heads, u32 length, float scale) {
    __shared__ __align__(16) T keys[TILE][STRIDE];
    __shared__ __align__(16) T values[TILE][STRIDE];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, at = lane % 4 * 2;
    // The longest rows first, so that the last blocks to run are short.
    u32 first = (gridDim.x - 1 - blockIdx.x) * TILE;
    u32 head = blockIdx.y % heads, batch = blockIdx.y / heads;
    u64 kv = ((u64)batch * kv_heads + head / (heads / kv_heads)) * length * DIM;
    u64 own = (u64)blockIdx.y * length * DIM;
    u32 rows[2] = {first + warp * 16 + group, first + warp * 16 + group + 8};

    u32 query[DIM / 16][4];
#pragma unroll
    for (int d = 0; d < DIM / 16; d++) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
            u32 row = rows[r % 2];
            const T* from = q + own + (u64)(row < length ? row : 0) * DIM + d * 16 + r / 2 * 8 + at;
            query[d][r] = row < length ? *reinterpret_cast<const u32*>(from) : 0;
        }
    }
    float sums[DIM / 8][4] = {};
    float top[2] = {-1e30f, -1e30f}, total[2] = {0.0f, 0.0f};
    // In powers of two: exp(x) = exp2(x * log2 e).
    float to_log2 = scale * 1.44269504f;

    u32 tiles = min(first + TILE, length);
    tiles = (tiles + TILE - 1) / TILE;
    copy_tile(keys, k + kv, 0, length);
    for (u32 t = 0; t < tiles; t++) {
        copies_done();
        copy_tile(values, v + kv, t * TILE, length);
        float scores[TILE / 8][4] = {};
#pragma unroll
        for (int d = 0; d < DIM / 32; d++) {
#pragma unroll
            for (int n = 0; n < TILE / 8; n++) {
                // Four 8x8 matrices: keys n*8..n*8+7, elements d*32 + 0, 8, 16, 24.
                u32 b[4], from = shared_address(&keys[n * 8 + lane % 8][d * 32 + lane / 8 * 8]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(from) : "memory");
                mma(scores[n], query[2 * d], b[0], b[1]);
                mma(scores[n], query[2 * d + 1], b[2], b[3]);
            }
        }
        float most[2] = {top[0], top[1]};
#pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (int c = 0; c < 4; c++) {
                u32 key = t * TILE + n * 8 + at + c % 2;
                scores[n][c] = key <= rows[c / 2] && key < length ? scores[n][c] * to_log2 : -1e30f;
                most[c / 2] = fmaxf(most[c / 2], scores[n][c]);
            }
        }
        float keep[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            most[r] = fmaxf(most[r], __shfl_xor_sync(~0u, most[r], 1));
            most[r] = fmaxf(most[r], __shfl_xor_sync(~0u, most[r], 2));
            keep[r] = exp2f(top[r] - most[r]);
            top[r] = most[r];
            total[r] *= keep[r];
        }
#pragma unroll
        for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
            for (int c = 0; c < 4; c++) {
                scores[n][c] = exp2f(scores[n][c] - top[c / 2]);
                total[c / 2] += scores[n][c];
            }
        }
#pragma unroll
        for (int n = 0; n < DIM / 8; n++) {
#pragma unroll
            for (int c = 0; c < 4; c++) sums[n][c] *= keep[c / 2];
        }
        copies_done();
        if (t + 1 < tiles) copy_tile(keys, k + kv, (t + 1) * TILE, length);
#pragma unroll
        for (int j = 0; j < TILE / 16; j++) {
            u32 weights[4] = {pair(scores[2 * j][0], scores[2 * j][1]), pair(scores[2 * j][2], scores[2 * j][3]),
                              pair(scores[2 * j + 1][0], scores[2 * j + 1][1]),
                              pair(scores[2 * j + 1][2], scores[2 * j + 1][3])};
#pragma unroll
            for (int n = 0; n < DIM / 16; n++) {
                // Transposed: keys j*16 + 0 and 8, elements n*16, then the same keys, elements n*16 + 8.
                u32 b[4], from = shared_address(&values[j * 16 + lane % 16][n * 16 + lane / 16 * 8]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                             : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(from) : "memory");
                mma(sums[2 * n], weights, b[0], b[1]);
                mma(sums[2 * n + 1], weights, b[2], b[3]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        total[r] += __shfl_xor_sync(~0u, total[r], 1);
        total[r] += __shfl_xor_sync(~0u, total[r], 2);
        if (rows[r] >= length) continue;
        T* to = out + own + (u64)rows[r] * DIM + at;
#pragma unroll
        for (int n = 0; n < DIM / 8; n++) {
            *reinterpret_cast<u32*>(to + n * 8) = pair(sums[n][2 * r] / total[r], sums[n][2 * r + 1] / total[r]);
        }
    }
}
