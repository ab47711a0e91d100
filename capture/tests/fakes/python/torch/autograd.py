def backward(*tensors):
    pass
