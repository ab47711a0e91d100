from . import nvtx


def is_available():
    return False
