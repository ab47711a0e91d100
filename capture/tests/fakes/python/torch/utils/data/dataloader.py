class _BaseDataLoaderIter:
    def __init__(self, batches):
        self.batches = iter(batches)
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.batches)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    pass


class DataLoader:
    def __init__(self, batches, pin_memory=False):
        self.batches, self.pin_memory = batches, pin_memory

    def __iter__(self):
        return _SingleProcessDataLoaderIter(self.batches)
