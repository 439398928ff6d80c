"""ShuffleFL's edge (Zhu et al. 2024): its rule, what planning costs its gateways, adaptive scaling, merging of classes.

The exchange of samples itself is solved in `fedfleet.shuffle`.
"""
