CHAINS = {}
