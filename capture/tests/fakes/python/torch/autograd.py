from . import profiler


def backward(*tensors):
    pass


def _record_function_with_args_enter(name):
    profiler.EVENTS.append("mark " + name)
    return name


def _record_function_with_args_exit(name):
    profiler.EVENTS.append("end of mark " + name)
