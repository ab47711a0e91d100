def range_push(message):
    return 0


def range_pop():
    return 0
