opened = []


def range_push(message):
    opened.append(message)


def range_pop():
    return len(opened)
