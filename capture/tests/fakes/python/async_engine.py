"""Stands in for `vllm serve`: an API server on an asyncio loop, whose argument is its port, and a process by multiprocessing
that schedules and computes batches. GET /generate/N answers when N tokens are generated."""
import asyncio
import multiprocessing
import sys
import time


def engine_core(requests, answers):
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner, SchedulerOutput

    runner = GPUModelRunner()
    runner.capture_model()
    answers.put("ready")
    for tokens in iter(requests.get, None):
        runner.execute_model(SchedulerOutput({}))
        runner.execute_model(SchedulerOutput({"a": 1, "b": 16}))
        for _ in range(tokens - 1):
            # Two tokens are guessed for one of the requests.
            runner.execute_model(SchedulerOutput({"a": 3, "b": 1}, {"a": [7, 7]}))
            time.sleep(0.001)
        answers.put("answered")


async def serve(port):
    from vllm.engine.arg_utils import EngineArgs

    EngineArgs("/models/Tiny", tensor_parallel_size=2).create_engine_config()
    context = multiprocessing.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    core = context.Process(target=engine_core, args=(requests, answers), name="EngineCore", daemon=True)
    core.start()
    loop, lock = asyncio.get_running_loop(), asyncio.Lock()
    await loop.run_in_executor(None, answers.get)

    async def answer(reader, writer):
        path = (await reader.readline()).split()[1].decode()
        if path != "/health":
            async with lock:
                requests.put(int(path.rsplit("/", 1)[1]))
                await loop.run_in_executor(None, answers.get)
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(serve(int(sys.argv[1])))
    except KeyboardInterrupt:
        pass
