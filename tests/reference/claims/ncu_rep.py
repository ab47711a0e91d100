"""Launches of a report of Nsight Compute (`.ncu-rep`): names, sizes and metrics.

The field numbers are those of the definitions that come with Nsight Compute (`extras/FileFormat`).
"""

import struct


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(message):
    """Number and content of each field."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        size = {1: 8, 5: 4}.get(tag & 7)
        if tag & 7 == 0:
            content, at = varint(message, at)
        else:
            if tag & 7 == 2:
                size, at = varint(message, at)
            content, at = message[at:at + size], at + size
        yield tag >> 3, content


def number(value):
    """The number of a metric: floating point or whole; of texts none."""
    for kind, content in fields(value):
        if kind in (2, 3):
            return struct.unpack("<f" if kind == 2 else "<d", content)[0]
        if kind in (4, 5):
            return content
    return None


def extents(message):
    own = dict(fields(message))
    return tuple(own.get(axis, 0) for axis in (1, 2, 3))


def launch(message, names):
    metrics, own = {}, {"metrics": {}}
    for kind, content in fields(message):
        if kind == 6:
            own["function"] = content.decode()
        elif kind == 8 and isinstance(content, bytes):
            own["demangled"] = content.decode()
        elif kind == 7:
            own["mangled"] = content.decode()
        elif kind in (10, 11):
            own["grid" if kind == 10 else "block"] = extents(content)
        elif kind == 13:
            parts = dict(fields(content))
            if 2 in parts and (value := number(parts[2])) is not None:
                metrics[names[parts.get(1, 0)]] = value
    own["metrics"] = metrics
    return own


def launches(path):
    data = open(path, "rb").read()
    at, names, found = 8 + struct.unpack_from("<I", data, 4)[0], [], []
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        header, at = list(fields(data[at + 4:at + 4 + size])), at + 4 + size
        length, sources = dict(header).get(5, 0), dict(header).get(1, 0)
        names += [text.decode() for kind, table in header if kind == 4 for _, text in fields(table)]
        messages, end = [], at + length
        while at < end:
            (size,) = struct.unpack_from("<I", data, at)
            messages.append(data[at + 4:at + 4 + size])
            at += 4 + size
        found += [launch(message, names) for message in messages[sources:]]
    return found
