// One block a row: layer norm, RMS norm, softmax. Rows are multiples of 16 bytes long. The second pass over a row
// finds it in the cache.
__device__ float block_sum(float value, float* scratch) {
    for (int d = 16; d; d /= 2) value += __shfl_xor_sync(~0u, value, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int w = 0; w < blockDim.x / 32; w++) sum += scratch[w];
    return sum;
}

__device__ float block_max(float value, float* scratch) {
    for (int d = 16; d; d /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    float most = scratch[0];
    for (int w = 1; w < blockDim.x / 32; w++) most = fmaxf(most, scratch[w]);
    return most;
}

// y = x / sqrt(mean(x^2) + epsilon) * weight
extern "C" __global__ void rms_norm(T* y, const T* x, const T* weight, u32 columns, float epsilon) {
    __shared__ float scratch[32];
    const T* in = x + (u64)blockIdx.x * columns;
    T* out = y + (u64)blockIdx.x * columns;
    float squares = 0.0f;
    for (u32 c = threadIdx.x * LANES; c < columns; c += blockDim.x * LANES) {
        Pack p = load_pack(in + c);
        for (int l = 0; l < LANES; l++) squares += to_float(p.lane[l]) * to_float(p.lane[l]);
    }
    float scale = rsqrtf(block_sum(squares, scratch) / columns + epsilon);
    for (u32 c = threadIdx.x * LANES; c < columns; c += blockDim.x * LANES) {
        Pack p = load_pack(in + c), w = load_pack(weight + c);
        for (int l = 0; l < LANES; l++) {
            p.lane[l] = from_float(to_float(p.lane[l]) * scale * to_float(w.lane[l]));
        }
        store_pack(out + c, p);
    }
}

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with the variance of centred values
extern "C" __global__ void layer_norm(T* y, const T* x, const T* weight, const T* bias, u32 columns,
                                      float epsilon) {
    __shared__ float scratch[32];
    const T* in = x + (u64)blockIdx.x * columns;
    T* out = y + (u64)blockIdx.x * columns;
    float sum = 0.0f, squares = 0.0f;
    for (u32 c = threadIdx.x * LANES; c < columns; c += blockDim.x * LANES) {
        Pack p = load_pack(in + c);
        for (int l = 0; l < LANES; l++) sum += to_float(p.lane[l]);
    }
    float mean = block_sum(sum, scratch) / columns;
    for (u32 c = threadIdx.x * LANES; c < columns; c += blockDim.x * LANES) {
        Pack p = load_pack(in + c);
        for (int l = 0; l < LANES; l++) {
            float d = to_float(p.lane[l]) - mean;
            squares += d * d;
        }
    }
    float scale = rsqrtf(block_sum(squares, scratch) / columns + epsilon);
    for (u32 c = threadIdx.x * LANES; c < columns; c += blockDim.x * LANES) {
        Pack p = load_pack(in + c), w = load_pack(weight + c), b = load_pack(bias + c);
        for (int l = 0; l < LANES; l++) {
            float n = (to_float(p.lane[l]) - mean) * scale;
            p.lane[l] = from_float(n * to_float(w.lane[l]) + to_float(b.lane[l]));
        }
        store_pack(out + c, p);
    }
}

// y = exp(x - max) / sum
extern "C" __global__ void softmax(T* y, const T* x, u32 columns) {
    __shared__ float scratch[32];
    const T* in = x + (u64)blockIdx.x * columns;
    T* out = y + (u64)blockIdx.x * columns;
    float most = -1e30f, sum = 0.0f;
    for (u32 c = threadIdx.x * LANES; c < columns; c += blockDim.x * LANES) {
        Pack p = load_pack(in + c);
        float before = most;
        for (int l = 0; l < LANES; l++) most = fmaxf(most, to_float(p.lane[l]));
        sum *= __expf(before - most);
        for (int l = 0; l < LANES; l++) sum += __expf(to_float(p.lane[l]) - most);
    }
    float top = block_max(most, scratch);
    float scale = 1.0f / block_sum(sum * __expf(most - top), scratch);
    for (u32 c = threadIdx.x * LANES; c < columns; c += blockDim.x * LANES) {
        Pack p = load_pack(in + c);
        for (int l = 0; l < LANES; l++) p.lane[l] = from_float(__expf(to_float(p.lane[l]) - top) * scale);
        store_pack(out + c, p);
    }
}
