class _Grid:
    def __init__(self, shape):
        self.shape = shape


class DeviceMesh:
    def __init__(self, device_type, mesh, *, mesh_dim_names=None):
        self.mesh, self.mesh_dim_names = _Grid(mesh), mesh_dim_names
