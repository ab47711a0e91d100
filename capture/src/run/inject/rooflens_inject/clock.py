"""Times between two points of the GPU's work, by CUDA events that nobody waits for; the host's clock where there is none."""
import collections
import time

# Intervals that wait before those that the GPU has finished are read. Events are used again then: making one takes longer
# than recording it.
_BATCH = 8

# What marks may cost: a share of the time since the first one, and nanoseconds at the beginning.
_SHARE, _ALLOWANCE = 0.005, 20_000_000


class Clock:
    """Marks, and intervals between them that are read once the GPU has passed them."""

    def __init__(self, torch):
        self.cuda = torch.cuda
        self.pools = {}
        self.pending = collections.deque()
        self.begun, self.spent = time.perf_counter_ns(), 0

    def is_affordable(self):
        """Whether marks have cost the workload little so far."""
        return self.spent < _ALLOWANCE + _SHARE * (time.perf_counter_ns() - self.begun)

    def mark(self):
        """A point in time: the host's, and the one that the current stream reaches. CUDA is not initialized for it."""
        now, cuda = time.perf_counter_ns(), self.cuda
        # An event that is captured into a graph has no time.
        if not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return now, None, None
        device = cuda.current_device()
        pool = self.pools.setdefault(device, [])
        event = pool.pop() if pool else cuda.Event(enable_timing=True)
        event.record()
        self.spent += time.perf_counter_ns() - now
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
