from . import nvtx

now = 0.0  # Milliseconds of the GPU, which works only when `work` is called.


def work(milliseconds):
    global now
    now += milliseconds


def is_initialized():
    return True


def is_current_stream_capturing():
    return False


def current_device():
    return 0


class CUDAGraph:
    def replay(self):
        work(2)


class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing

    def record(self):
        self.at = now

    def query(self):
        return True

    def elapsed_time(self, end):
        return end.at - self.at
