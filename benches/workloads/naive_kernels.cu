// A transpose, a histogram, a reduction in one block, and a gather, each written as a first attempt.
#include <cstdio>

__global__ void transpose(float *out, const float *in, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    out[size_t(column) * n + row] = in[size_t(row) * n + column];
}

__global__ void histogram(int *bins, const int *values, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(&bins[values[i] % 16], 1);
}

__global__ void sum(float *result, const float *values, int count) {
    __shared__ float partial[1024];
    float total = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) total += values[i];
    partial[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x; i++) partial[0] += partial[i];
        *result = partial[0];
    }
}

__global__ void gather(float *out, const float *in, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[(size_t(i) * stride) % (size_t(n) * n)];
}

int main() {
    const int n = 8192, count = n * n;
    float *in, *out, *result;
    int *values, *bins;
    cudaMalloc(&in, count * sizeof(float));
    cudaMalloc(&out, count * sizeof(float));
    cudaMalloc(&values, count * sizeof(int));
    cudaMalloc(&bins, 16 * sizeof(int));
    cudaMalloc(&result, sizeof(float));
    cudaMemset(in, 0, count * sizeof(float));
    cudaMemset(values, 0, count * sizeof(int));
    for (int step = 0; step < 60; step++) {
        transpose<<<dim3(n / 256, n), 256>>>(out, in, n);
        histogram<<<count / 256, 256>>>(bins, values, count);
        sum<<<1, 1024>>>(result, in, count / 16);
        gather<<<count / 256, 256>>>(out, in, n, 33);
    }
    cudaError_t status = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorString(status));
    return status;
}
