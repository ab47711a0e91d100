LIMITS = {}
