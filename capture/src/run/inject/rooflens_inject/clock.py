"""Times between two points of the GPU's work, by CUDA events that nobody waits for; the host's clock where there is none."""
import collections
import time

# Intervals that wait before those that the GPU has finished are read. Events are used again then: making one takes longer
# than recording it.
_BATCH = 8

# Share of a range's time that timing it may take, and how many instances of a name are timed whatever it takes: of an outermost
# range, and of one inside of others, which may be around every layer. Then one instance of several is timed. Their number is
# prime, because workloads repeat what they do in every 10 or 64 steps.
SHARE, FIRST, FIRST_INNER = 0.0025, 32, 2
PERIODS = (1, 2, 3, 5, 7, 11, 17, 31, 61, 127, 251, 509, 1021)

# Nanoseconds that timing a range takes and that no clock of ours sees: calls, and caches that it fills.
UNSEEN = 3000


def skips(cost, length):
    """How many instances are not timed after one that took `length`, of which timing took `cost`, in nanoseconds."""
    period = (cost + UNSEEN) / (SHARE * max(length, 1))
    return next((longer for longer in PERIODS if longer >= period), PERIODS[-1]) - 1


class Clock:
    """Marks, and intervals between them that are read once the GPU has passed them."""

    def __init__(self, torch):
        self.cuda = torch.cuda
        self.stream_of = _streams(torch)
        self.pools = {}
        self.pending = collections.deque()

    def mark(self):
        """A point in time: the host's, and the one that the current stream reaches. CUDA is not initialized for it."""
        now, cuda = time.perf_counter_ns(), self.cuda
        # An event that is captured into a graph has no time.
        if not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return now, None, None
        device, stream = self.stream_of()
        pool = self.pools.setdefault(device, [])
        event = pool.pop() if pool else cuda.Event(enable_timing=True)
        event.record(stream)
        return now, event, device

    def interval(self, start, end, read):
        """Calls `read(milliseconds, is_of_gpu)`: now, or later when the GPU has passed both marks."""
        if start[1] is None or end[1] is None or start[2] != end[2]:
            read((end[0] - start[0]) / 1e6, False)
            return
        self.pending.append((start, end, read))
        if len(self.pending) > _BATCH:
            self.drain()

    def drain(self, patience=0.0):
        """Reads what the GPU has finished, and waits for the rest, but not for ever: it may have failed."""
        until = time.monotonic() + patience
        while self.pending:
            start, end, read = self.pending[0]
            if not end[1].query():
                if time.monotonic() > until:
                    return
                time.sleep(0.001)
                continue
            self.pending.popleft()
            read(start[1].elapsed_time(end[1]), True)
            self.release(start)
            self.release(end)

    def release(self, mark):
        """A mark that is not needed any more."""
        if mark is not None and mark[1] is not None:
            self.pools.setdefault(mark[2], []).append(mark[1])


def _streams(torch):
    """A function that gives the current device and stream. PyTorch's own makes a stream object each time, which takes longer
    than recording an event."""
    cuda, c, streams = torch.cuda, torch._C, {}
    if not hasattr(c, "_cuda_getDevice") or not hasattr(c, "_cuda_getCurrentStream"):
        return lambda: (cuda.current_device(), None)

    def current():
        device = c._cuda_getDevice()
        key = c._cuda_getCurrentStream(device)
        stream = streams.get(key)
        if stream is None:
            stream = streams[key] = cuda.current_stream()
        return device, stream

    return current
