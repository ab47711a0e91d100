class Profile:
    pass
PROFILED = {}
