"""Stands in for an engine that serves: the processes of vLLM. The API server, whose argument is its port, has a child by
multiprocessing that schedules (EngineCore), which has a worker that computes."""
import http.server
import multiprocessing
import sys


def worker(tasks, done):
    import torch
    from torch.cuda import work

    graph = torch.cuda.CUDAGraph()
    done.put("ready")
    for steps in iter(tasks.get, None):
        for _ in range(steps):
            graph.replay()
            work(1)
        done.put("answered")


def engine_core(requests, answers):
    context = multiprocessing.get_context("spawn")
    tasks, done = context.Queue(), context.Queue()
    process = context.Process(target=worker, args=(tasks, done))
    process.start()
    answers.put(done.get())
    for steps in iter(requests.get, None):
        tasks.put(steps)
        answers.put(done.get())
    tasks.put(None)
    process.join()


def serve(port):
    context = multiprocessing.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    core = context.Process(target=engine_core, args=(requests, answers), name="EngineCore")
    core.start()
    answers.get()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path != "/health":
                requests.put(int(self.path.rsplit("/", 1)[1]))
                answers.get()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    try:
        http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
    except KeyboardInterrupt:
        pass
    requests.put(None)
    core.join(5)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
