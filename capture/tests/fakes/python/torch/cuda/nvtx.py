opened = []
# Names of start/end ranges, and those that are open by their handles.
started, open_ranges = [], {}


def range_push(message):
    opened.append(message)


def range_pop():
    return len(opened)


def range_start(message):
    started.append(message)
    open_ranges[len(started)] = message
    return len(started)


def range_end(handle):
    del open_ranges[handle]
