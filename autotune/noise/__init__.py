"""What times say under noise: pure functions of numbers, so that noise can be made up to test them.

Times enter as logarithms: machines slow kernels down by factors.
"""
