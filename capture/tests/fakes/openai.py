"""An OpenAI-compatible server with slots: a request waits for one, and then has a token each few milliseconds."""
import argparse
import http.server
import json
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--slots", type=int, default=1)
parser.add_argument("--most-slots", type=int, default=1 << 20)
parser.add_argument("--token", default="")
options = parser.parse_args()

print("loading the model with key", options.token, flush=True)
if options.slots > options.most_slots:
    print(f"RuntimeError: out of memory with {options.slots} slots", file=sys.stderr)
    print("the engine is down", file=sys.stderr)
    sys.exit(1)

slots = threading.Semaphore(options.slots)
TTFT, TPOT = 0.02, 0.015


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        found = self.path == "/v1/models"
        body = json.dumps({"data": [{"id": "fake", "owned_by": "nobody"}]}).encode() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with slots:
            for token in range(asked["max_tokens"]):
                time.sleep(TTFT if token == 0 else TPOT)
                self.event(json.dumps({"choices": [{"text": "a"}]}))
        usage = {"prompt_tokens": 4, "completion_tokens": asked["max_tokens"]}
        self.event(json.dumps({"choices": [], "usage": usage}))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, data):
        event = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.flush()


http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
